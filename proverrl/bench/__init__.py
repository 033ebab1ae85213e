"""Measurements that a user can repeat; each is one command that prints a table and writes JSON.

``pool`` measures the verifier pool, ``grpo`` a step of training, ``report`` the report of a
made-up run. Not handled here: judging whether a figure is good enough; targets are printed beside
the figures, and no test depends on speed.
"""
