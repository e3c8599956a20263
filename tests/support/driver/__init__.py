"""Drives a real server as people do: the stock ssh client, under a pty or with pipes."""

from support.driver.person import Done, Person
from support.driver.screen import Screen
from support.driver.server import Server

__all__ = ["Done", "Person", "Screen", "Server"]
