"""What a policy may write in Dafny, read before anything runs: bodies, methods, whole files."""
