"""Drivers of a real server as people use it: stock ssh, under a pty or by pipes."""

from support.driver.person import Done, Person
from support.driver.screen import Screen
from support.driver.server import Server

__all__ = ["Done", "Person", "Screen", "Server"]
