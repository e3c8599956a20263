"""The operator's tools: keys, agents, backup, restore, checks, the control socket."""
