"""Tool calls: resolve a name, check the loadout, run the provider, record rows."""
