"""Propositions in words: what formalisers are given and asked, and whether two of them agree."""
