"""The base of errors that are reported in a sentence, without a traceback."""

from __future__ import annotations


class ReportedError(Exception):
    """An error whose message says to people what was wrong, and what to do.

    It stands alone, so that commands know such an error without importing what may raise it.
    """
