"""The world as an MCP server, over HTTP and over an ssh channel.

door      what the rest of the program holds; loads everything below when doors are open
guests    external agents: their place in the world, what they have open, how it ends
protocol  the MCP methods, answered from the world
endpoint  the HTTP side: tokens, limits, streams that end when they must
stream    the other side: JSON-RPC messages, one a line
"""
