"""Fast, bounded ssh transport over asyncssh; meets the world in `interfaces`."""
