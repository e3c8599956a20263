"""The first run: the person who starts a world without people becomes its owner."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import structlog

from sshwarma.admin.data_dir_modes import OPERATOR_KEY_NAME
from sshwarma.admin.data_dir_owner import name_process_user
from sshwarma.admin.operations import run_operation
from sshwarma.world.audit import operator
from sshwarma.world.errors import WorldError
from sshwarma.world.names import check_person_name
from sshwarma.world.world import World

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AdmittedOperator:
    """The operator, admitted on the first run.

    `identity` is the private key file that was made for them, if they had no key.
    """

    name: str
    fingerprints: tuple[str, ...]
    identity: Path | None = None


async def admit_operator(world: World, data_dir: Path) -> AdmittedOperator | None:
    """Make the person who runs a world without people its owner; return them.

    Their keys are the public keys of their account, or a new key if they have none. Nobody else is
    admitted.
    """
    if any(agent.kind == "person" for agent in world.agents):
        return None
    name = _choose_operator_name()
    loop = asyncio.get_running_loop()
    texts = await loop.run_in_executor(None, _read_own_public_keys)
    identity = None
    if not texts:
        identity = data_dir / OPERATOR_KEY_NAME
        texts = [_create_operator_key(identity)]
    fingerprints: list[str] = []
    reset = operator.set(name_process_user(os.getpid(), os.geteuid()))
    for text in texts:
        try:
            result = await run_operation(
                world, "keys_add", {"name": name, "public_key": text, "role": "owner"}
            )
        except WorldError as error:
            log.warning("an operator key was rejected", error=str(error))
            continue
        fingerprints.append(result["fingerprint"])
    operator.reset(reset)
    return AdmittedOperator(name, tuple(fingerprints), identity)


def _read_own_public_keys() -> list[str]:
    """Return the public keys of the program's account: its files and its ssh agent."""
    keys = set()
    with contextlib.suppress(RuntimeError, PermissionError):  # no home, or that of somebody else
        for file in sorted((Path.home() / ".ssh").glob("id_*.pub")):
            keys.add(file.read_text(encoding="utf-8", errors="replace").strip())
    if os.environ.get("SSH_AUTH_SOCK"):
        try:
            process = subprocess.run(
                ["ssh-add", "-L"],  # noqa: S607 - whichever ssh the operator uses
                capture_output=True,
                text=True,
                timeout=5,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log.warning("the ssh agent was not asked", error=str(error))
        else:
            keys |= {
                text
                for text in process.stdout.splitlines()
                if text.startswith(("ssh-", "ecdsa-", "sk-"))
            }
    return sorted(keys)


def _create_operator_key(path: Path) -> str:
    """Return the public key made for an operator who has none.

    The private half is stored in the data directory, mode 0600.
    """
    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519", comment="made by sshwarma")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key("openssh"))
        path.with_suffix(".pub").write_bytes(key.export_public_key("openssh"))
    return path.with_suffix(".pub").read_text(encoding="utf-8")


def _choose_operator_name() -> str:
    try:
        return check_person_name(getpass.getuser().lower())
    except (WorldError, OSError, KeyError):
        return "owner"
