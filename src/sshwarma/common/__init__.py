"""Small helpers that know nothing of the world: secrets, imports."""
