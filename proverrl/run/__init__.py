"""Parts that every loop shares: folder, session, checkpoints, samplers, the way to a verdict."""
