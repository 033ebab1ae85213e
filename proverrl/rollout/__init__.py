"""Rollouts: completions become candidates, candidates get verdicts, verdicts make groups."""
