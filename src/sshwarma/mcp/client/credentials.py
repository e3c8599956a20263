"""What was agreed with the authorization server of an MCP server: tokens, and our registration.

They are kept in a file of mode 0600 for each server, outside the database, and so neither in a
backup nor anywhere that can be looked at in the world. A file says which URL it is for: what is
kept for one is never sent to another, though it may have the name.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from sshwarma.world.errors import Unavailable

MAX_FILE_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """How a server refused us: the status, and its WWW-Authenticate header."""

    status: int
    header: str = ""


@dataclass(slots=True)
class StoredCredentials:
    """What is kept of one server. The documents are those of the protocol, as JSON has them."""

    url: str
    client: dict[str, Any] | None = None  # our registration
    tokens: dict[str, Any] | None = field(default=None, repr=False)
    expires_at: float | None = None  # of the access token, in seconds since 1970
    issuer: dict[str, Any] | None = None  # metadata of the authorization server
    resource: dict[str, Any] | None = None  # metadata of the server itself
    ended: str = ""  # why there are no tokens any more

    def __repr__(self) -> str:
        return f"StoredCredentials({self.url})"


class CredentialStore:
    """The credentials of one server, shared by its connection and by whoever signs in to it.

    `lock` is held while tokens are got. `challenge` is how the server refused us last.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.lock = asyncio.Lock()
        self.challenge: AuthChallenge | None = None
        self.wanted = ""  # rights a tool was refused for the lack of
        self._path = path
        self._url = url
        self._kept: StoredCredentials | None = None

    def __repr__(self) -> str:
        return f"CredentialStore({self._path.name})"

    @property
    def kept(self) -> StoredCredentials:
        """What is kept, once it was loaded."""
        return self._kept or StoredCredentials(self._url)

    async def load(self) -> StoredCredentials:
        """What is kept; read when it is first needed.

        Raises:
            Unavailable: if the file cannot be read, or others could have read it.
        """
        if self._kept is None:
            loop = asyncio.get_running_loop()
            self._kept = await loop.run_in_executor(None, _read_file, self._path, self._url)
        return self._kept

    async def store(self, kept: StoredCredentials) -> None:
        """Keep this from now on.

        Raises:
            Unavailable: if it cannot be written; it holds until the program ends.
        """
        self._kept = kept
        text = json.dumps({k: v for k, v in asdict(kept).items() if v})
        # It is written to the end though nobody may wait for it any more: a refresh token that
        # was answered with a new one is worth nothing.
        writing = asyncio.get_running_loop().run_in_executor(None, _write_file, self._path, text)
        await asyncio.shield(writing)

    async def forget(self) -> None:
        """Keep nothing, and remove the file."""
        self._kept = StoredCredentials(self._url)
        self.challenge, self.wanted = None, ""
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._path.unlink(missing_ok=True)
        )

    @property
    def token(self) -> str:
        """The access token; empty if there is none."""
        return str((self.kept.tokens or {}).get("access_token") or "")

    def expired(self, early: float = 0.0) -> bool:
        """Whether the access token is over, or will be in so many seconds."""
        at = self.kept.expires_at
        return at is not None and time.time() >= at - early

    @property
    def renews(self) -> bool:
        """Whether there is a refresh token."""
        return bool((self.kept.tokens or {}).get("refresh_token"))


def _read_file(path: Path, url: str) -> StoredCredentials:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return StoredCredentials(url)
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise Unavailable(f"{path} is no file.")
        if found.st_mode & 0o077:
            raise Unavailable(f"Others may read {path}.", hint="chmod 600 it, and sign in anew.")
        text = file.read(MAX_FILE_BYTES)
    try:
        said = json.loads(text)
        known = {one.name for one in fields(StoredCredentials)}
        kept = StoredCredentials(**{name: value for name, value in said.items() if name in known})
    except (ValueError, TypeError, AttributeError) as error:
        raise Unavailable(f"{path} is damaged.", hint="Remove it, and sign in anew.") from error
    return kept if kept.url == url else StoredCredentials(url)


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")  # made 0600
        draft = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"{path} cannot be written: {error.strerror}.") from error
