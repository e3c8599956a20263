"""What an operator does: keys, agents, backup, restore, checks, the control socket."""
