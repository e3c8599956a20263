"""MCP client: connects to servers and makes their tools things of the world."""
