"""MCP: the world as client of other people's servers (`hub`), and the world served (`server`)."""
