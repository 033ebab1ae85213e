"""Whole pieces of work, one for each command: train, evaluate, search, export proofs."""
