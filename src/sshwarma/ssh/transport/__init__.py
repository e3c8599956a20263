"""asyncssh made lean and guarded; reaches the world through `ports` only."""
