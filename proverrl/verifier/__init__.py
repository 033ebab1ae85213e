"""Verification: candidates flow in, verdicts flow out.

``base`` is the seam, ``proverrl.lang.open.open_verifier`` the front door. Not handled here: what a
verdict is worth (``proverrl.rewards``) and how a body is read from a completion
(``proverrl.rollout``).
"""
