"""Benchmarks of others, read in the forms they are published in, as ``Problem`` records."""
