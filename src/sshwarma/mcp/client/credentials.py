"""OAuth credentials of an MCP server: tokens and our client registration.

Each server has a file of mode 0600 outside the database, so credentials are in no backup and cannot
be read in the world. The file names its URL: credentials for one URL are never sent to another,
even if a server of the same name has it.
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

from sshwarma.common.units import MIB
from sshwarma.world.errors import Unavailable

MAX_FILE_BYTES: Final = MIB


@dataclass(frozen=True, slots=True)
class AuthChallenge:
    """A server's 401 or 403 response: the status and the WWW-Authenticate header."""

    status: int
    header: str = ""


@dataclass(slots=True)
class StoredCredentials:
    """Stored credentials of one server, with the protocol's documents as JSON."""

    url: str
    client: dict[str, Any] | None = None  # our client registration
    tokens: dict[str, Any] | None = field(default=None, repr=False)
    expires_at: float | None = None  # expiry of the access token, Unix seconds
    issuer: dict[str, Any] | None = None  # metadata of the authorization server
    resource: dict[str, Any] | None = None  # metadata of the protected resource (the server)
    ended: str = ""  # why the tokens were deleted

    def __repr__(self) -> str:
        return f"StoredCredentials({self.url})"


class CredentialStore:
    """Credentials of one server, shared by its connection and its sign-in.

    Attributes:
        lock: Held while tokens are requested.
        challenge: The server's last 401 or 403 response.
        wanted_scope: Scopes that a tool call was refused for.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.lock = asyncio.Lock()
        self.challenge: AuthChallenge | None = None
        self.wanted_scope = ""
        self._path = path
        self._url = url
        self._kept: StoredCredentials | None = None

    def __repr__(self) -> str:
        return f"CredentialStore({self._path.name})"

    @property
    def stored(self) -> StoredCredentials:
        """The stored credentials, once loaded; empty ones before."""
        return self._kept or StoredCredentials(self._url)

    async def load(self) -> StoredCredentials:
        """Return the stored credentials; reads the file at the first call.

        Raises:
            Unavailable: if the file cannot be read, or other users can access it.
        """
        if self._kept is None:
            loop = asyncio.get_running_loop()
            self._kept = await loop.run_in_executor(None, _read_file, self._path, self._url)
        return self._kept

    async def store(self, credentials: StoredCredentials) -> None:
        """Replace the stored credentials.

        Raises:
            Unavailable: if the file cannot be written; the new credentials are used until exit.
        """
        self._kept = credentials
        text = json.dumps({k: v for k, v in asdict(credentials).items() if v})
        # Shielded: a used refresh token is worthless, so the new one must reach the disk even if
        # the caller is cancelled.
        future = asyncio.get_running_loop().run_in_executor(None, _write_file, self._path, text)
        await asyncio.shield(future)

    async def delete(self) -> None:
        """Delete the credentials and their file."""
        self._kept = StoredCredentials(self._url)
        self.challenge, self.wanted_scope = None, ""
        await asyncio.get_running_loop().run_in_executor(
            None, lambda: self._path.unlink(missing_ok=True)
        )

    @property
    def token(self) -> str:
        """The access token, or an empty string."""
        return str((self.stored.tokens or {}).get("access_token") or "")

    def is_expired(self, early: float = 0.0) -> bool:
        """Return whether the access token expires within `early` seconds."""
        expiry = self.stored.expires_at
        return expiry is not None and time.time() >= expiry - early

    @property
    def has_refresh_token(self) -> bool:
        """Whether there is a refresh token."""
        return bool((self.stored.tokens or {}).get("refresh_token"))


def _read_file(path: Path, url: str) -> StoredCredentials:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return StoredCredentials(url)
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unavailable(f"{path} is not a regular file.")
        if status.st_mode & 0o077:
            raise Unavailable(
                f"Other users can access {path}.", hint="Set its mode to 600, then sign in again."
            )
        text = file.read(MAX_FILE_BYTES)
    try:
        data = json.loads(text)
        names = {entry.name for entry in fields(StoredCredentials)}
        credentials = StoredCredentials(
            **{name: value for name, value in data.items() if name in names}
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise Unavailable(f"{path} is damaged.", hint="Remove it and sign in again.") from error
    return credentials if credentials.url == url else StoredCredentials(url)


def _write_file(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")  # mode 0600
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
