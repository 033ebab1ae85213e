"""Curricula: which problems are drawn next."""
