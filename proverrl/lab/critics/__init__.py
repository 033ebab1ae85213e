"""Critics: policies that judge whether a statement says what the English says."""
