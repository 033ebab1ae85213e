"""What a policy may write in Lean, read before any Lean sees it."""
