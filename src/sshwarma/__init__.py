"""A world you ssh into, where people, models and tools work in the same rooms."""

__version__ = "0.1.0"
