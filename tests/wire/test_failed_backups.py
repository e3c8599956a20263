"""A server whose own backups fail: the doctor says so, whatever it is given."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.driver import Server
from support.driver.fixtures import homes
from support.driver.server import forked_program
from support.waiting import wait_until


def test_doctor_asks_a_server_for_the_failure_of_its_last_backup(tmp_path: Path) -> None:
    directory = tmp_path / "unmounted" / "backups"
    with homes() as home:
        server = Server(home(), backup__every="1d", backup__directory=str(directory))
        try:
            wait_until(lambda: "the backup failed" in server.log())
            words = [str(forked_program()), "doctor", "--data-dir", str(server.data_dir)]
            checked = subprocess.run(words, capture_output=True, text=True, check=False)
            assert checked.returncode == 1
            start = f"FAIL  backups: the last one of the server, to {directory}, failed at 20"
            (line,) = (one for one in checked.stdout.splitlines() if one.startswith(start))
            assert line.endswith(f": {directory} not found. Check the path")
            directory.parent.mkdir()
            assert "backups" not in server.cli("reload").stderr
            wait_until(lambda: list(directory.glob("world-*.tar.gz")))
            wait_until(lambda: server.operate("backup_failure") is None)
        finally:
            assert server.stop() == 0
