"""The HTTP server: health, metrics and the API."""
