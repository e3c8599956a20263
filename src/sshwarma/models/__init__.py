"""Models as agents: the port their backends speak, the turn loop, the built-in guide."""
