"""The console: pages for browsers."""
