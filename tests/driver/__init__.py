"""Drives a real server as people do: the stock ssh client, under a pty or with pipes."""

from driver.person import Done, Person
from driver.screen import Screen
from driver.server import Server

__all__ = ["Done", "Person", "Screen", "Server"]
