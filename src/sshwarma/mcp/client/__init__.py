"""The world as a client of MCP servers: their tools become things."""
