"""Models as agents: backend interface, turn loop, and the built-in guide."""
