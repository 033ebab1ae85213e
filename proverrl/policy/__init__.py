"""Policies: what writes completions. ``base`` holds the seam, the others implement it."""
