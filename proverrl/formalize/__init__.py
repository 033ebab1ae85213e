"""From words to checked statements: what they mean, decided by a verifier."""
