"""The world's state: things, equipment, exits, rows, agents and access.

Also the store of all this, and its events.
"""
