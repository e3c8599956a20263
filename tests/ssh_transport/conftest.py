"""Fixtures: `world`, `key`; `serve` and `server`; clients of both kinds, `connect` and `ssh`."""

from support.ssh_server import connect, key, serve, server, ssh, world

__all__ = ["connect", "key", "serve", "server", "ssh", "world"]
