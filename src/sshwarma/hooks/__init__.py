"""Hooks of rooms: events are posted to other servers, and others post to rooms."""
