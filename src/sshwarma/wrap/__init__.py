"""Lua for the world's authors: a pool of worker processes, sandbox, protocol.

`sshwarma.wrap.host` is for the server. The worker imports this package too, so it imports nothing.
"""
