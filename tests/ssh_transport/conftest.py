"""Fixtures: `world`, `key`; `serve`, `server`; clients by `connect` and `ssh`."""

from support.ssh_server import connect, key, serve, server, ssh, world

__all__ = ["connect", "key", "serve", "server", "ssh", "world"]
