"""Judgements of statements: whether one says what the English says. None proves anything."""
