"""What is true: things, equipment, exits, rows, agents, access; the store and its events."""
