"""Lines of the log that a stream does not take."""

from __future__ import annotations

import io
import os
from pathlib import Path

from sshwarma.settings.log_output import LogOutput


def open_output(path: Path) -> LogOutput:
    output = LogOutput()
    output.use(path.open("a"), lambda lost: f"{lost} lost")
    return output


def test_full_disk_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    output, file = open_output(Path("/dev/full")), tmp_path / "log"
    for line in ("one\n", "two\n", "three\n"):
        output.write(line)
    assert output.lost_lines == 3
    output.use(file.open("a"), lambda lost: f"{lost} lost")
    output.write("four\n")
    output.write("five\n")
    assert file.read_text() == "four\n3 lost\nfive\n"
    assert output.lost_lines == 3


def test_ended_reader_of_a_pipe_fails_nothing() -> None:
    reading, writing = os.pipe()
    output = LogOutput()
    with os.fdopen(writing, "w") as file:
        output.use(file, str)
        output.write("read\n")
        assert os.read(reading, 100) == b"read\n"
        os.close(reading)
        output.write("unread\n")
    output.write("closed\n")
    assert output.lost_lines == 2


def test_stream_in_memory_is_written(tmp_path: Path) -> None:
    output, file = LogOutput(), io.StringIO()
    output.use(file, str)
    output.write("größe\n")
    output.flush()
    assert file.getvalue() == "größe\n"
