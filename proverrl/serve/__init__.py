"""The verifier pool behind HTTP."""
