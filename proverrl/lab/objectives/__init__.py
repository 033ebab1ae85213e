"""Losses, advantages and rewards of papers, beside those that the core measured.

Named as ``proverrl.lab.objectives.losses:gspo``, or by their short names (pyproject.toml).
"""
