"""Exit statuses of commands, over ssh and of `sshwarma` itself."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
"""Refused, or failed with a reason."""
EXIT_USAGE: Final = 2
"""Invalid arguments or settings."""
EXIT_INTERNAL_ERROR: Final = 70
"""A fault of the program; EX_SOFTWARE of sysexits.h."""
EXIT_RESTART: Final = 75
"""The server has been drained: start it again. EX_TEMPFAIL of sysexits.h."""
EXIT_INTERRUPTED: Final = 130
"""Ended by a signal, as a shell reports SIGINT."""
