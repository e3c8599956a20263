"""The world's state: things, equipment, exits, rows, agents, access; the store and its events."""
