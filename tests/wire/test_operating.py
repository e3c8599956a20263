"""The commands of docs/operating.md, run from top to bottom as one script.

Programs that need root, a container or a package index are replaced by stubs. `systemctl` runs the
commands of the unit file; everything else is the program itself, the stock ssh client and curl.
tests/test_container.py runs the steps that build and install the wheel.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from support.driver.fixtures import homes
from support.driver.server import forked_program
from support.free_ports import find_free_ports

TOP = Path(__file__).parents[2]
PAGE = (TOP / "docs" / "operating.md").read_text("utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SSH = (
    "ssh -F /dev/null -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
)

STUBS = {
    "useradd": "exit 0",
    "userdel": "exit 0",
    "git": "exit 0",
    "podman": "if [ $1 = exec ]; then cat > /dev/null; fi",
    "pipx": "for last; do :; done; test -f $last",
    "runuser": 'shift 3; exec "$@"',
    "python3": """
        if [ "$1 $2" != "-m venv" ]; then exec {python} "$@"; fi
        mkdir -p $3/bin && ln -sf {program} $3/bin/sshwarma && ln -sf {bin}/pip $3/bin/pip""",
    "pip": """
        if [ $1 = wheel ]; then mkdir -p dist && touch dist/sshwarma-0.1.0-py3-none-any.whl; fi
        if [ $1 != install ]; then exit 0; fi
        for last; do :; done; test -f $last && test -s $(dirname $last)/constraints""",
    "systemctl": """
        unit={home}/etc/systemd/system/sshwarma.service
        run() {{
            sed -n "s|^$1=-*||p" $unit | sed 's|/opt/|{home}/opt/|g; s|/etc/|{home}/etc/|g'
        }}
        export SSHWARMA_DATA_DIR={home}/var/lib/sshwarma
        case "$1" in
        stop|disable) kill -TERM $(cat {home}/pid)
            while kill -0 $(cat {home}/pid) 2> /dev/null; do sleep 0.02; done ;;
        start|enable) rm -f {home}/ready; $(run ExecStartPre) >> {home}/journal 2>&1 || true
            $(run ExecStart) > {home}/ready 2>> {home}/journal & echo $! > {home}/pid
            until grep -q ^ready {home}/ready; do kill -0 $(cat {home}/pid); sleep 0.02; done ;;
        daemon-reload) test -d $(dirname $unit) ;;
        status) test -f $unit ;;
        *) exit 1 ;;
        esac""",
}  # fmt: skip
"""Programs of the machine, as shell scripts."""

ROOTS = re.compile(r"(?<![\w.])/(?=(?:etc|opt|var/lib)\b)")
"""Roots of paths of the machine, which are below `home` here."""

DRAIN = re.compile(r"^sshwarma drain.*\n", re.MULTILINE)
"""Ends the server, which its unit starts again; that of the stubs does not."""

SETTINGS = """
motd = "{motd}"
[ssh]
listen = "127.0.0.1:{ssh}"
[http]
listen = "127.0.0.1:{http}"
[registration]
mode = "invite"
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """The root of a machine: directories, stubs and the checkout."""
    with homes() as make:
        top = make()
        for name in ("etc/systemd/system", "var/lib", "bin", "sshwarma/dist"):
            (top / name).mkdir(parents=True)
        for name in ("examples", "requirements.lock"):
            (top / "sshwarma" / name).symlink_to(TOP / name)
        for name, text in STUBS.items():
            stub = top / "bin" / name
            known = {
                "home": top,
                "bin": top / "bin",
                "program": forked_program(),
                "python": sys.executable,
            }
            stub.write_text("#!/bin/sh -e\n" + text.format(**known))
            stub.chmod(0o700)
        yield top
        if (top / "pid").exists():
            _end_if_running(int((top / "pid").read_text()))


def _end_if_running(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _write_script(home: Path, identity: Path) -> str:
    """Return the page's commands, and between them what an operator edits."""
    ssh, http = find_free_ports(2)
    settings, world = "/etc/sshwarma/sshwarma.toml", "/var/lib/sshwarma"

    def edit(motd: str) -> str:
        text = SETTINGS.format(motd=motd, ssh=ssh, http=http)
        return f"printf %s {shlex.quote(text)} > {settings}\n"

    before = {
        "systemctl daemon-reload\nsystemctl enable": edit(""),
        "sshwarma reload": edit("Tea is at four."),
        "tar -C /etc -xzf": f"rm -r /etc/sshwarma {world}\n",
        "sshwarma restore /var/lib": f"cp {world}/world.db {world}/world-before-NNNN.db\n",
    }
    parts = [f"cp *.pub sshwarma/ && cd {home}\n"]
    for number, block in enumerate(BLOCKS):
        for start, text in before.items():
            block = re.sub(f"^(?={re.escape(start)})", lambda _, text=text: text, block, flags=re.M)
        block = ROOTS.sub(f"{home}/", block).replace(" -o sshwarma -g sshwarma", "")
        # Days later, says the page.
        block = block.replace("sshwarma host-key switch\n", "sshwarma host-key switch --now\n")
        block = DRAIN.sub("\\g<0>systemctl stop sshwarma\nsystemctl start sshwarma\n", block)
        block = block.replace("127.0.0.1:2280", f"127.0.0.1:{http}")
        block = block.replace("ssh -p 2222", f"{SSH} -i {identity} -p {ssh}")
        parts.append(f"echo '== {number}'\n{block}")
    return "".join(parts)


@pytest.mark.soak
@pytest.mark.sqlite
def test_commands_of_the_page_do_what_it_says(home: Path) -> None:
    for name in ("alice", "bob"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        (home / name).touch(mode=0o600)
        key.write_private_key(home / name)
        key.write_public_key(home / f"{name}.pub")
    script = home / "script.sh"
    script.write_text(_write_script(home, home / "alice"))
    done = subprocess.run(
        ["sh", "-ex", script], capture_output=True, text=True, check=False, timeout=150,
        cwd=home, stdin=subprocess.DEVNULL,
        env={"PATH": f"{home}/bin:{os.environ['PATH']}", "HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])
    assert f"== {len(BLOCKS) - 1}" in done.stdout
    for expected in (
        "alice (owner) may log in with SHA256:",
        "\nlobby\n",
        "bob is now called robert.",
        'motd: "" -> "Tea is at four."',
        '"status":"ok"',
        "alice is an owner and may log in",
        "Returned ",
        "world-replaced-",
    ):
        assert expected in done.stdout, (expected, done.stdout)
    assert "REMOTE HOST IDENTIFICATION" not in done.stderr


def test_files_that_are_installed_exist() -> None:
    installed = re.findall(r"^install -m \d+ (examples/\S+)", PAGE, re.MULTILINE)
    assert len(installed) == 2
    assert not [name for name in installed if not (TOP / name).exists()]
