"""The stock git as a person uses it: over their ssh, with a home of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.driver import Person

SECONDS = 120.0

WITHOUT_GIT = "" if shutil.which("git") else "git is not installed"
"""Why a test is skipped that uses it; "" if it is not."""


@dataclass(frozen=True)
class GitDone:
    """How a command of git ended."""

    status: int
    out: str
    err: str


class GitClient:
    """The git of one person; `folder` is where it works."""

    def __init__(self, person: Person, folder: Path) -> None:
        self.person = person
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def env(self) -> dict[str, str]:
        """The environment: the server may have another port than before."""
        name, address = self.person.name, f"{self.person.name}@example.org"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GIT_SSH_COMMAND": shlex.join(self.person.ssh()[:-1]),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
            **{f"GIT_{role}_NAME": name for role in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{role}_EMAIL": address for role in ("AUTHOR", "COMMITTER")},
        }

    def url(self, room: str) -> str:
        server = self.person.server
        return f"ssh://{self.person.name}@{server.host}:{server.port}/{room}"

    def start(self, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """Start git and do not wait for it."""
        return subprocess.Popen(
            ["git", "-c", "init.defaultBranch=main", *words],
            cwd=cwd or self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def tries(self, *words: str, cwd: Path | None = None, stdin: bytes = b"") -> GitDone:
        """Run git, however it ends."""
        done = subprocess.run(
            ["git", "-c", "init.defaultBranch=main", *words],
            cwd=cwd or self.folder,
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return GitDone(done.returncode, out, err)

    def does(self, *words: str, cwd: Path | None = None, stdin: bytes = b"") -> str:
        """Run git, which must succeed; returns what it printed."""
        done = self.tries(*words, cwd=cwd, stdin=stdin)
        assert done.status == 0, (words, done)
        return done.out

    def clone(self, room: str, name: str = "clone") -> Path:
        """Clone a room; returns the folder."""
        self.does("clone", "-q", self.url(room), name)
        return self.folder / name

    def commit(self, clone: Path, message: str) -> str:
        """Commit everything in a clone; returns the id."""
        self.does("add", "-A", cwd=clone)
        self.does("commit", "-q", "--allow-empty", "-m", message, cwd=clone)
        return self.head(clone)

    def push(self, clone: Path, *words: str) -> GitDone:
        """Push the branch of a clone."""
        return self.tries("push", *(words or ("origin", "HEAD:main")), cwd=clone)

    def head(self, clone: Path, name: str = "HEAD") -> str:
        return self.does("rev-parse", name, cwd=clone).strip()
