"""Losses: pure functions over the tokens of a batch, in literal dicts."""
