"""Structured logs on stderr, for people or as JSON lines."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO, cast

import structlog

from sshwarma.settings.log_output import log_output
from sshwarma.settings.server import LogSettings

log = structlog.get_logger(__name__)


def configure_logging(settings: LogSettings) -> None:
    """Configure logging for the process. Libraries log from `warning` on.

    With format json all that is written is a JSON object a line: also what libraries log, Python's
    warnings, and errors that end a thread or the process.
    """
    is_json = settings.format == "json"
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    shared: list[structlog.types.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info if is_json else _show_controls,
    ]
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if is_json
        # The default formatter, where rich is installed, shows the values of local variables, which
        # can be secrets, and takes a second of the event loop to colour them.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    log_output.use(sys.stderr, lambda lost: _render("warning", "log lines were lost", lines=lost))
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, log_output)),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(shared if is_json else None)
    logging.captureWarnings(is_json)
    sys.excepthook = _log_uncaught if is_json else sys.__excepthook__
    sys.unraisablehook = _log_unraisable if is_json else sys.__unraisablehook__
    threading.excepthook = _log_thread_error if is_json else threading.__excepthook__


@contextlib.contextmanager
def leaving_out(*, reason: str) -> Iterator[None]:
    """Log no lines with one `reason` in the block: something else says it."""
    before = structlog.get_config()["processors"]

    def drop(_logger: Any, _level: str, line: structlog.typing.EventDict) -> Any:
        if line.get("reason") == reason:
            raise structlog.DropEvent
        return line

    structlog.configure(processors=[drop, *before])
    try:
        yield
    finally:
        structlog.configure(processors=before)


def log_from_signal_handler(event: str, **values: str) -> None:
    """Log an error in a signal handler.

    What the signal interrupted may hold the lock of the log, so that it is not taken.
    """
    log_output.write(f"{_render('error', event, **values)}\n")


def _render(level: str, event: str, **values: object) -> str:
    """Return a line of the log, without its lock."""
    line: Any = {"event": event, **values}
    for processor in structlog.get_config()["processors"]:
        line = processor(None, level, line)
    return str(line)


def _show_controls(logger: Any, method: str, line: Any) -> Any:
    """Make control characters in the values of a line visible, as JSON does.

    A client chooses its user name, and the log may be read in a terminal.
    """
    return {
        name: _escape(value) if isinstance(value, str) and not value.isprintable() else value
        for name, value in line.items()
    }


def _escape(text: str) -> str:
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _configure_libraries(shared: list[structlog.types.Processor] | None) -> None:
    """Send what libraries log to stderr, as JSON or as text.

    JSON is made with the `shared` processors; None is for text.
    """
    handler = logging.StreamHandler(log_output)
    if shared is None:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    else:
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                processor=structlog.processors.JSONRenderer(),
                foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            )
        )
    handler.set_name(__name__)
    root = logging.getLogger()
    for old in [one for one in root.handlers if one.get_name() == __name__]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)  # the door logs, once per window


def _log_uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    log.critical("uncaught error", exc_info=(kind, error, traceback))


def _log_unraisable(unraisable: Any) -> None:
    error = unraisable.exc_value
    log.error(
        unraisable.err_msg or "an error that cannot be raised",
        at=repr(unraisable.object),
        exc_info=(unraisable.exc_type, error, unraisable.exc_traceback),
    )


def _log_thread_error(hook: Any) -> None:
    log.error(
        "a thread ended by an error",
        thread=hook.thread.name if hook.thread else "",
        exc_info=(hook.exc_type, hook.exc_value, hook.exc_traceback),
    )
