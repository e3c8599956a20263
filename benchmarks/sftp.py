"""60 MB up and down by sftp: to a room, and to asyncssh's own server.

    python -m benchmarks.sftp

The stock `scp` copies one file up and back, in the same run, to a bare asyncssh server with its
files in a folder, and to a room. Variants alternate for several rounds; the median is printed.
Absolute figures depend on the machine; compare the ratios.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import asyncssh

from benchmarks.bare import GCM
from sshwarma.app import App
from sshwarma.common.units import MIB
from sshwarma.settings import Settings

ROUNDS = 5
FILE_BYTES = 60_000_000
MANY_FILES = 200
MEASURES = ("60 MB up, s", "60 MB down, s", f"{MANY_FILES} files up, s")

BARE = """
import asyncio, asyncssh, sys, uvloop

class Owner(asyncssh.SSHServer):
    def public_key_auth_supported(self):
        return True
    def validate_public_key(self, username, key):
        return True

async def main(folder):
    listener = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Owner, encryption_algs=["aes128-gcm@openssh.com"],
        server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")], compression_algs=None,
        sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=folder.encode()),
    )
    print("port", listener.get_port(), flush=True)
    await asyncio.Event().wait()

uvloop.run(main(sys.argv[1]))
"""

WORLD = "import sys, uvloop; from benchmarks.sftp import serve; uvloop.run(serve(sys.argv[1]))"


async def serve(folder: str) -> None:
    """Serve a new world in a folder until the process ends; print its port."""
    settings = Settings(
        data_dir=Path(folder) / "data",
        ssh={"listen": "127.0.0.1:0"},
        http={"listen": "off"},
        limits={"files_mib_per_hour": 100_000, "lines_per_10_seconds": 1_000_000},
    )
    app = await App.start(settings)
    print("port", app.ssh.port, flush=True)
    await asyncio.Event().wait()


def scp(key: Path, port: int, *words: str) -> float:
    """Copy; return the seconds that it took.

    The disk has nothing else to write: a room waits until its files are on it, asyncssh does not.
    """
    os.sync()
    began = time.perf_counter()
    subprocess.run(
        [
            *("scp", "-q", "-r", "-F", "/dev/null", "-i", str(key), "-P", str(port)),
            *("-o", "IdentitiesOnly=yes", "-o", "StrictHostKeyChecking=no"),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"),
            *("-o", f"Ciphers={GCM[0]}"),
            *words,
        ],
        check=False,  # asyncssh's own server sends no exit status, which scp takes for a failure
    )
    return time.perf_counter() - began


def measure(key: Path, port: int, top: str, source: Path, scratch: Path) -> list[float]:
    """Copy one large file up and down and many small ones up."""
    host = "root@127.0.0.1"
    large = source / "large"
    up = scp(key, port, str(large), f"{host}:{top}/large")
    down = scp(key, port, f"{host}:{top}/large", str(scratch / "back"))
    assert (scratch / "back").read_bytes() == large.read_bytes()
    many = scp(key, port, str(source / "many"), f"{host}:{top}/")
    return [up, down, many]


@contextlib.contextmanager
def serving(code: str, folder: Path) -> Iterator[int]:
    """Run a server with its files in a folder; the value is its port."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout
        for line in process.stdout:  # others are of the log
            if line.startswith(b"port "):
                yield int(line.split()[1])
                return
        raise RuntimeError("the server did not start")
    finally:
        process.kill()
        process.wait()


def main() -> None:
    results: dict[str, list[list[float]]] = defaultdict(list)
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source, bare, world = base / "source", base / "bare", base / "world"
        for folder in (source / "many", bare / "top", world):
            folder.mkdir(parents=True)
        for number in range(MANY_FILES):
            (source / "many" / str(number)).write_text(f"{number}\n")
        bare_port = stack.enter_context(serving(BARE, bare))
        world_port = stack.enter_context(serving(WORLD, world))
        bare_key, world_key = base / "key", world / "data" / "operator_ed25519"
        asyncssh.generate_private_key("ssh-ed25519").write_private_key(bare_key)
        bare_key.chmod(0o600)
        variants = {
            "asyncssh": (bare_key, bare_port, "/top"),
            "room": (world_key, world_port, "/rooms/lobby/workspace"),
        }
        for _ in range(ROUNDS):
            (source / "large").write_bytes(os.urandom(FILE_BYTES))
            for variant, (key, port, top) in variants.items():
                results[variant].append(measure(key, port, top, source, base))
    print(f"{'':<20}{'asyncssh':>10}{'room':>10}{'room/asyncssh':>15}")
    for index, measured in enumerate(MEASURES):
        floor, ours = (
            statistics.median(taken[index] for taken in results[variant])
            for variant in ("asyncssh", "room")
        )
        print(f"{measured:<20}{floor:>10.2f}{ours:>10.2f}{ours / floor:>15.2f}")
    speed = FILE_BYTES / MIB / statistics.median(taken[0] for taken in results["room"])
    print(f"a room takes {speed:.0f} MiB a second")


if __name__ == "__main__":
    main()
