"""The web door: health, metrics; later the API and the console."""
