"""Measurements of developers; each is one command that prints a table and writes JSON.

Targets are printed beside the figures; nothing here judges them, and no test depends on speed.
"""
