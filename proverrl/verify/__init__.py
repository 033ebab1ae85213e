"""Verification: candidates flow in, verdicts flow out.

``base`` defines the interface; ``proverrl.lang.open`` opens a verifier. Not handled here: what a
verdict is worth (``proverrl.rewards``) and how a body is read from a completion
(``proverrl.rollout``).
"""
