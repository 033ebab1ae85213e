"""A value model on a policy's hidden states, and a tree search that asks it."""
