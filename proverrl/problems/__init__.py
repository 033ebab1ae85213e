"""Problems: read from files, generated, normalised, and shown to a policy.

Flows in: files and generator settings. Flows out: ``Problem`` records and prompt text.
Not handled here: whether a body proves a problem (``proverrl.verifier``).
"""
