"""MCP server: the world for external agents, over HTTP and over an ssh channel.

server    the interface to the rest of the program; loads everything below in the background
clients   external agents: their presence, open connections and running calls
handlers  the MCP methods
endpoint  HTTP: tokens, limits, streams that end with their token
stream    the ssh channel: JSON-RPC messages, one a line
"""
