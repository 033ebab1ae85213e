"""Lean 4: its texts and their audit, its verifier, and what searches and composers ask of it."""
