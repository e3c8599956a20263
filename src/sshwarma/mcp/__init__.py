"""MCP client and server: external servers as things, the world as a server."""
