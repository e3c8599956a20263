"""The services of git's protocol, by the programs that clients ask for."""

from __future__ import annotations

from typing import Final

FETCH: Final = "git-upload-pack"
PUSH: Final = "git-receive-pack"
