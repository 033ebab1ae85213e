"""Contracts in words: what formalisers are given and asked, and whether two contracts agree."""
