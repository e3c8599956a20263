"""Tools of the operator: keys, agents, backup, restore, checks, control socket."""
