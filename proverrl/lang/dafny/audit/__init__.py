"""Rules for a policy's Dafny, read before anything runs: bodies, methods, whole files."""
