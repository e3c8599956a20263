"""What an import of a toolset over ssh says while it waits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.metrics import scrape
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack
from support.waiting import wait_until

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def house() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="admin")
    yield one
    one.hang_up()


def start_import(person: Person) -> subprocess.Popen[bytes]:
    """Start an import, which reads its file from a pipe."""
    return subprocess.Popen(
        [*person.ssh("-T"), "toolset import"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip


def test_import_that_waits_for_another_says_so(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    slow = pack(kit(name("slow"), functions=("ask",)) | {"tools/kit.py": "while True: pass"})
    with start_import(ann) as first, start_import(ann) as second:
        assert first.stdin and second.stdin and second.stderr
        first.stdin.write(slow)
        first.stdin.close()
        wait_until(lambda: scrape(house).value("sshwarma_worker_processes", kind="sandbox") == 1)
        second.stdin.write(pack(kit(name("kit"), functions=("ask",))))
        second.stdin.close()
        said = second.stderr.readline().decode()
        assert said == "Waiting: another toolset is being installed or changed.\n"
        first.kill()
        assert second.wait() == 0


def test_import_says_how_much_of_its_file_has_come(ann: Person, name: Callable[[str], str]) -> None:
    data = pack(kit(name("kit"), functions=("ask",)))
    with start_import(ann) as running:
        assert running.stdin and running.stderr
        running.stdin.write(data[:100])
        running.stdin.flush()
        assert running.stderr.readline() == b"Reading the file from the pipe: 100 B.\n"
        running.stdin.write(data[100:])
        running.stdin.close()
        assert running.wait() == 0
