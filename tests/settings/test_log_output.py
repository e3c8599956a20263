"""Lines of the log that a stream does not take."""

from __future__ import annotations

import io
import os
from pathlib import Path

from sshwarma.settings.log_output import LogOutput


def test_full_disk_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    output, log = LogOutput(), tmp_path / "log"
    with Path("/dev/full").open("a") as full:
        output.use(full, lambda lost: f"{lost} lost")
        for line in ("one\n", "two\n", "three\n"):
            output.write(line)
    assert output.lost_lines == 3
    with log.open("a") as file:
        output.use(file, lambda lost: f"{lost} lost")
        output.write("four\n")
        output.write("five\n")
    assert log.read_text() == "four\n3 lost\nfive\n"
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


def test_line_after_one_that_was_cut_begins_by_itself() -> None:
    """A pipe takes a part of a line, and then nothing before it is read."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    output = LogOutput()
    with os.fdopen(writing, "w") as file:
        output.use(file, lambda lost: f"{lost} lost")
        long = "x" * 100_000  # more than a pipe takes
        output.write(f"{long}\n")
        assert output.lost_lines == 1
        taken = os.read(reading, 1_000_000)
        output.write("next\n")
        assert os.read(reading, 100) == b"\nnext\n1 lost\n"
        assert taken == b"x" * len(taken)
    os.close(reading)


def test_nothing_is_written_before_there_is_a_stream() -> None:
    output = LogOutput()
    output.write("early\n")
    assert output.lost_lines == 1


def test_stream_in_memory_is_written(tmp_path: Path) -> None:
    output, file = LogOutput(), io.StringIO()
    output.use(file, str)
    output.write("größe\n")
    output.flush()
    assert file.getvalue() == "größe\n"
