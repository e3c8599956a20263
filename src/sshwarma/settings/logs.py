"""Structured logs on stderr, for people or as JSON lines."""

from __future__ import annotations

import logging
import sys

import structlog

from sshwarma.settings import LogSettings


def configure_logging(settings: LogSettings) -> None:
    """Configure logging for the process. Libraries log from `warning` on."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        # The default formatter, where rich is installed, shows the values of local variables, which
        # can be secrets, and takes a second of the event loop to colour them.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([structlog.processors.format_exc_info] if settings.format == "json" else []),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)  # the door logs, once per window
