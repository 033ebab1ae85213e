"""Loops: each reads top to bottom in the order of its paper. ``train`` runs a whole run."""
