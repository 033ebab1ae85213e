"""New problems out of old ones: operators, guards, scaffolds, and the archive of their descent."""
