"""Local models: llama.cpp in a process of its own, started at the first question.

The launcher `common/spawn.py` stands between us and the process, as it does for MCP servers: the
process ends with this one, also after `kill -9`. It listens on a loopback port of its own choice
and serves only requests with a key that this process made.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from sshwarma.common.limits import DEFAULT_LOCAL_BASE_MEMORY_MIB, LOCAL_MODEL_START_SECONDS
from sshwarma.common.processes import end_launched, launcher_command, start_program
from sshwarma.common.shorten import shorten_text
from sshwarma.common.units import KIB, MIB
from sshwarma.models.backend import BackendError
from sshwarma.models.local_files import PACKAGED_MODEL, find_model_file
from sshwarma.models.secrets import Secret
from sshwarma.settings import ModelSettings

log = structlog.get_logger(__name__)


LOCAL_MODEL_VARIABLES: Final = ("HOME", "LANG", "LD_LIBRARY_PATH")
"""Variables that the process of a local model inherits. Keys of providers are in the others."""

MAX_LOG_LINES: Final = 20
PACKAGED_SAMPLING: Final = {"temp": 0.1, "top_p": 0.9}
"""Sampling of the packaged model. At llama.cpp's default temperature of 0.8 it loses the topic; its
authors recommend 0.2. Other files bring their own, or llama.cpp's."""


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """Where a local model answers: the URL of its API, and the key that it asks for."""

    url: str
    key: Secret


NO_ADDRESS: Final = LocalAddress("http://127.0.0.1/v1", Secret(""))
"""Stands for the address of a process that does not run, where nothing is sent."""


@dataclass(slots=True)
class _RunningServer:
    """A started process, its address, and the task that reads its log."""

    process: Process
    address: LocalAddress
    log_task: asyncio.Task[None]


class LocalModelProcess:
    """The server process of one local model; `start` it before each request."""

    def __init__(
        self, settings: ModelSettings, context_tokens: int, models_dir: Path | None = None
    ) -> None:
        self._settings = settings
        self._models_dir = models_dir
        self._context_tokens = context_tokens
        self._running: _RunningServer | None = None
        self._lock = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """Process id of the launcher; None while the model does not run."""
        running = self._running
        return running.process.pid if running and running.process.returncode is None else None

    async def start(self) -> LocalAddress:
        """Start the process if it does not run; return its address.

        Raises:
            BackendError: if the model cannot be started, with the reason.
        """
        async with self._lock:
            if self._running is not None and self._running.process.returncode is None:
                return self._running.address
            await self._stop()
            file = await asyncio.to_thread(find_model_file, self._settings.model, self._models_dir)
            self._running = await self._launch(file)
            log.info("a local model started", model=self._settings.model, pid=self.pid)
            return self._running.address

    async def stop(self) -> None:
        """End the process, if it runs, and wait until it has ended."""
        async with self._lock:
            await self._stop()

    async def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            await asyncio.shield(_end_process(running.process, running.log_task))

    async def _launch(self, file: Path) -> _RunningServer:
        key = secrets.token_urlsafe(32)
        process = await self._start_process(file)
        lines: deque[str] = deque(maxlen=MAX_LOG_LINES)
        log_task = asyncio.create_task(_read_log(process, lines))
        try:
            async with asyncio.timeout(LOCAL_MODEL_START_SECONDS):
                url = await self._configure(process, file, key)
        except TimeoutError:
            await _end_process(process, log_task)
            seconds = f"{LOCAL_MODEL_START_SECONDS:.0f} s"
            raise BackendError(f"{file.name} was not loaded within {seconds}") from None
        except (OSError, ValueError, LookupError):
            await _end_process(process, log_task)
            log.warning("a local model cannot start", model=str(file), log=list(lines))
            reason = _find_reason(lines)
            raise BackendError(f"llama.cpp cannot load {file.name}: {reason}") from None
        except BaseException:
            await asyncio.shield(_end_process(process, log_task))
            raise
        return _RunningServer(process, LocalAddress(f"{url}/v1", Secret(key)), log_task)

    async def _start_process(self, file: Path) -> Process:
        memory_mib = self._settings.memory_mib
        size = await asyncio.to_thread(lambda: file.stat().st_size)
        memory = memory_mib * MIB if memory_mib else DEFAULT_LOCAL_BASE_MEMORY_MIB * MIB + 2 * size
        worker = Path(__file__).with_name("local_worker.py")
        inherited = {name: os.environ[name] for name in LOCAL_MODEL_VARIABLES if name in os.environ}
        try:
            return await start_program(
                *launcher_command(memory),
                *(sys.executable, "-I", str(worker)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env={"PATH": os.defpath, **inherited},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            raise BackendError(f"llama.cpp cannot be started: {error.strerror}") from None

    async def _configure(self, process: Process, file: Path, key: str) -> str:
        """Send the configuration and return the URL that the process listens at.

        Raises:
            OSError, ValueError, LookupError: if the process ends instead.
        """
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 - for mypy
        settings = self._settings
        config: dict[str, Any] = {
            "file": str(file),
            "context_tokens": self._context_tokens,
            "threads": settings.threads or default_threads(),
            "key": key,
            "sampling": PACKAGED_SAMPLING if settings.model == PACKAGED_MODEL else {},
        }
        process.stdin.write(json.dumps(config).encode() + b"\n")
        await process.stdin.drain()
        return str(json.loads(await process.stdout.readline())["url"])


def default_threads() -> int:
    """Return the threads of a local model: one processor is left to everybody else.

    The threads of llama.cpp wait for each other all the time, so on a busy machine more of them
    are slower than fewer.
    """
    return max(1, (os.cpu_count() or 1) - 1)


async def _end_process(process: Process, log_task: asyncio.Task[None]) -> None:
    """End a process through its launcher, and wait for both."""
    assert process.stdin is not None  # noqa: S101 - for mypy
    process.stdin.close()
    await end_launched(process, process.stdout)
    log_task.cancel()
    await asyncio.gather(log_task, return_exceptions=True)


async def _read_log(process: Process, lines: deque[str]) -> None:
    """Keep the last lines that the process writes to stderr."""
    assert process.stderr is not None  # noqa: S101 - for mypy
    rest = b""
    while chunk := await process.stderr.read(64 * KIB):
        *whole, rest = (rest + chunk).split(b"\n")
        rest = rest[-4_096:]
        lines.extend(line.decode("utf-8", "replace")[:500] for line in whole if line.strip())


def _find_reason(lines: deque[str]) -> str:
    """Return the line of llama.cpp's log that likely says why a model did not load."""
    for word in ("error", "fail"):
        for line in lines:
            if word in line.lower() and "Traceback" not in line:
                return shorten_text(line.split("error:")[-1].strip())
    return "its process ended"
