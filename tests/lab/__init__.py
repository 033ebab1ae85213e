"""Tests of the experiments, which the core's tests do not need (proverrl/lab)."""
