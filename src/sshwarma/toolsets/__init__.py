"""Toolsets: bundles of tools that people import, and how results are drawn.

Reading and writing bundles needs neither database nor sandbox, and runs no code of a bundle.
"""
