"""MCP both ways: external servers as things, the world as a server."""
