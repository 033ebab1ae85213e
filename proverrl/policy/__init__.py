"""Policies write completions. ``base`` defines the interface, the other modules implement it."""
