"""Modules that import the SDK of MCP.

Other modules import these inside functions, in a thread.
"""
