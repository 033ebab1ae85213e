"""Whole pieces of work, one for each command: train, evaluate, search, formalise, prove."""
