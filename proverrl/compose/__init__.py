"""New problems out of old ones: operators, filters, scaffolds, and the archive of their descent."""
