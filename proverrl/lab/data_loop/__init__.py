"""Expert iteration on statements that the run composes, grades and attacks itself."""
