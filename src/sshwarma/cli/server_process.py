"""The process of a server: start, reload and end, by its signals."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import time
from pathlib import Path
from typing import Final

import click
import structlog
import uvloop

import sshwarma
from sshwarma.admin.service_notify import ServiceNotifier
from sshwarma.app import App
from sshwarma.cli.failures import describe_failure, is_reported
from sshwarma.cli.second_world import refuse_second_world
from sshwarma.cli.signals import ServerSignals
from sshwarma.cli.streams import STANDARD_OUTPUT
from sshwarma.cli.welcome import say_welcome
from sshwarma.common.exit_status import EXIT_FAILED, EXIT_OK, EXIT_RESTART, EXIT_USAGE
from sshwarma.models.discover import discover_models
from sshwarma.settings import InvalidSettingsError, LogSettings, Settings, SettingsSource
from sshwarma.settings.logs import configure_logging
from sshwarma.world.errors import WorldError

log = structlog.get_logger(__name__)

NO_HOME: Final = "/nonexistent"
"""The home directory of accounts without one, by the convention of Debian."""


def run_server(settings: Settings, source: SettingsSource, *, as_json: bool) -> int:
    """Run a server until a signal stops it; return the exit status.

    `source` is where a reload reads the settings again. `as_json` makes the ready line a JSON
    object, as does a log in JSON: a service has both in one journal.
    """
    configure_logging(settings.log)
    if source.file is not None:
        log.info("settings", file=str(source.file))
    _make_sure_of_home()
    try:
        refuse_second_world(settings)
        as_json = as_json or settings.log.format == "json"
        return uvloop.run(_serve_until_signal(settings, source, as_json=as_json))
    except Exception as error:
        if settings.log.format != "json":
            raise
        if is_reported(error):
            log.critical("the server ended", reason=describe_failure(error))
        else:
            log.critical("the server ended by an error", exc_info=error)
        return EXIT_FAILED


def refuse_settings(error: InvalidSettingsError | OSError) -> int:
    """Log in JSON that the settings are not valid; return the exit status."""
    configure_logging(LogSettings(format="json"))
    log.critical("the settings are not valid", reason=describe_failure(error))
    return EXIT_USAGE


def refuse_usage(error: click.UsageError) -> int:
    """Log in JSON that the words of the command are wrong; return the exit status."""
    configure_logging(LogSettings(format="json"))
    log.critical("the command is wrong", reason=error.format_message())
    return EXIT_USAGE


def _make_sure_of_home() -> None:
    """Set HOME to a missing directory if the user has no home.

    Libraries ask for it, and fail without an answer.
    """
    try:
        Path.home()
    except RuntimeError:  # neither HOME nor an entry in the table of users
        os.environ["HOME"] = NO_HOME


async def _start_unless_stopped(
    settings: Settings, source: SettingsSource, signals: ServerSignals
) -> App | None:
    """Start a server; None if a signal asks for its end before it is ready."""
    loop = asyncio.get_running_loop()
    notifier = ServiceNotifier.from_environment(os.environ)
    starting = loop.create_task(App.start(settings, source, notifier))
    stopping = loop.create_task(signals.stop.wait())
    await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    await asyncio.wait({starting})
    error = None if starting.cancelled() else starting.exception()
    if isinstance(error, Exception):
        log.error("the start failed while it was stopped", reason=describe_failure(error))
    return None


async def _serve_until_signal(settings: Settings, source: SettingsSource, *, as_json: bool) -> int:
    signals = ServerSignals()
    app = await _start_unless_stopped(settings, source, signals)
    if app is None:
        log.info("stopped before it was ready", reason=signals.reason)
        return EXIT_OK
    # Objects that exist now live until the end: exclude them from garbage collection.
    gc.collect()
    gc.freeze()
    gc.enable()  # the command has turned it off
    must_restart = False
    reloading = asyncio.get_running_loop().create_task(_reload_when_asked(app, signals.reload))
    try:
        say_welcome(app, [] if settings.models else await discover_models(os.environ))
        _write_ready_line(app, as_json=as_json)
        must_restart = await _wait_for_end(app, signals)
    finally:
        began = time.monotonic()
        log.info(
            "stopping", reason=signals.reason or (_name_end(app) if must_restart else "an error")
        )
        reloading.cancel()
        await asyncio.wait({reloading})
        await app.stop()
        log.info("stopped", seconds=round(time.monotonic() - began, 3))
    return EXIT_RESTART if must_restart else EXIT_OK


def _name_end(app: App) -> str:
    return "another server has taken over" if app.world.store.lost.is_set() else "a drain"


async def _wait_for_end(app: App, signals: ServerSignals) -> bool:
    """Wait until the server must stop; return whether it is to be started again.

    So it is after a drain, and when another server has taken over this world. At SIGTERM, by which
    service managers stop it, answers in progress are finished.
    """
    loop = asyncio.get_running_loop()
    lost = app.world.store.lost
    ends = {loop.create_task(one.wait()) for one in (signals.stop, app.drain.over, lost)}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    if lost.is_set():
        app.drain.farewell = "Another server has taken over this world. Connect again."
    elif signals.reason == signal.SIGTERM.name:
        await app.drain.finish_answers()
    return not signals.reason


async def _reload_when_asked(app: App, asked: asyncio.Event) -> None:
    while True:
        await asked.wait()
        asked.clear()
        try:
            await app.reload()
        except WorldError:
            pass  # the app has logged why
        except Exception:
            log.exception("the reload failed")


def _write_ready_line(app: App, *, as_json: bool) -> None:
    """Write the line; a server whose standard output cannot be written goes on."""
    try:
        print(_ready_line(app, as_json=as_json), flush=True)
    except OSError as error:
        log.warning("the ready line was not written", reason=error.strerror)
        # What is buffered would fail the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)


def _ready_line(app: App, *, as_json: bool) -> str:
    """Return the line for programs that start the server: it accepts connections now."""
    if not as_json:
        return f"ready ssh={app.ssh_address} http={app.http_address}"
    return json.dumps(
        {
            "event": "ready",
            "ssh": app.ssh_address,
            "http": app.http_address,
            "host_key": app.host_fingerprint(),
            "data_dir": str(app.settings.data_dir),
            "pid": os.getpid(),
            "version": sshwarma.__version__,
        }
    )
