"""Calling a tool: resolve its name, check the loadout, dispatch to its provider, record rows."""
