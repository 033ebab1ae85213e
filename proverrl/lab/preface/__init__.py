"""PREFACE (Proof2Silicon, arXiv 2509.06239): a policy learns to instruct a frozen writer.

Two modes of rollouts (``modes``), three rewards (``rewards``), and Dafny's words (``words``).
docs/lab/preface.md says what they do and what was measured.
"""
