"""Client of one model's API, loaded in a thread, with a local model's process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from sshwarma.models.local_files import find_model_file
from sshwarma.models.local_process import NO_ADDRESS, LocalAddress, LocalModelProcess
from sshwarma.models.providers import LoadedModel, load_model
from sshwarma.settings import ModelSettings


class ModelClient:
    """Loads the libraries, the key and the client of a model at its first request.

    Attributes:
        was_ready: Whether a request can have been sent.
    """

    def __init__(
        self,
        settings: ModelSettings,
        environ: Mapping[str, str],
        context_tokens: int,
        models_dir: Path | None,
    ) -> None:
        self.was_ready = False
        self._models_dir = models_dir
        self._settings = settings
        # Not a field, because `environ` has keys.
        self._load = lambda *address: load_model(settings, environ, *address)
        self._process = (
            LocalModelProcess(settings, context_tokens, models_dir)
            if settings.kind == "local"
            else None
        )
        self._address: LocalAddress | None = None
        self._loaded: LoadedModel | None = None
        self._lock = asyncio.Lock()

    async def ready(self) -> LoadedModel:
        """Load the client if needed; start the process of a local model if it ended.

        Raises:
            BackendError: if the key, a package or the file of the model is missing.
        """
        async with self._lock:
            address = await self._process.start() if self._process else None
            if self._loaded is None or address is not self._address:
                await self._close_client()
                load = partial(self._load, address) if address else self._load
                self._loaded = await asyncio.to_thread(load)
                self._address = address
                self.was_ready = True
            return self._loaded

    async def preload(self) -> None:
        """Do what takes seconds before the first question, but start no process.

        Raises:
            BackendError: as `ready`.
        """
        if self._process is None:
            await self.ready()
        else:
            await asyncio.to_thread(find_model_file, self._settings.model, self._models_dir)

    @asynccontextmanager
    async def preview(self) -> AsyncIterator[LoadedModel]:
        """Provide a client that can write requests; for a local model, with no process.

        Raises:
            BackendError: as `ready`.
        """
        if self._process is None:
            yield await self.ready()
            return
        loaded = await asyncio.to_thread(self._load, NO_ADDRESS)
        try:
            yield loaded
        finally:
            await loaded.http_client.aclose()

    async def close(self) -> None:
        """Close the connections and end the process; a later request opens new ones."""
        async with self._lock:
            await self._close_client()
            if self._process is not None:
                await self._process.stop()

    async def _close_client(self) -> None:
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            await loaded.http_client.aclose()
