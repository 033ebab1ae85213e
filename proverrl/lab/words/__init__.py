"""English as the beginning: statements, programs, claims and questions in words."""
