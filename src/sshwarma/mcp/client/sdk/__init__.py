"""Modules that import the SDK of MCP; the others import them inside functions, in a thread."""
