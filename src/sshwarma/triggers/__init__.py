"""The door of triggers: scripts of rooms that events start, and no person."""
