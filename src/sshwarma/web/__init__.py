"""The web door: health, metrics, and the API."""
