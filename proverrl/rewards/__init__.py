"""Rewards: pure functions from a judged rollout to a ``Reward``. A verdict is their only source.

Rollouts that were not judged never come here: they have already left their group.
"""
