"""ProverRL: train language models to write machine-checked proofs and verified code."""

__version__ = "0.1.0"
