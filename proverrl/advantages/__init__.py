"""Advantages: pure functions from the groups of a step to a number for each turn or token.

``base`` defines the interface. A method is a function and a line in ``methods.ADVANTAGES``, and a
name in ``proverrl.config.AdvantageName``.
"""
