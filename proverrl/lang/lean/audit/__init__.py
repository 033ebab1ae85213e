"""Rules for a policy's Lean, read before any Lean sees it."""
