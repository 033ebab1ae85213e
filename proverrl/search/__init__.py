"""Search at inference: whole proofs, cut at their first error and gone on with."""
