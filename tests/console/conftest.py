"""The fixtures of all tests of the console."""

from support.console_tabs import browser, tabs

__all__ = ["browser", "tabs"]
