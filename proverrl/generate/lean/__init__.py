"""The generator of the Lean curriculum: ``generator`` draws, the other modules write theorems."""
