"""ProverRL's verifiers as rewards inside other trainers; docs/integrations.md has a recipe each."""
