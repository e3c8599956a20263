"""The ssh transport over asyncssh, fast and bounded; reaches the world only by `interfaces`."""
