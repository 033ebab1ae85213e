"""New problems out of old ones: operators, filters, and the archive of their descent."""
