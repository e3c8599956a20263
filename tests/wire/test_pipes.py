"""Scripts, pipes, long texts: slowed or refused, never silently cut or dropped."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable

import pytest

from support.driver import Person, Server

LINES_OVER_THE_RATE = 60
"""More than `limits.lines_per_10_seconds` lets through at once."""


def test_batch_stops_at_the_first_failing_line(alice: Person, room: str) -> None:
    script = f"/join {room}\n\n/create {room}\n/describe wrong room\n/vibe wrong\n"
    done = alice.run("", script, "-T")
    assert done.status == 1
    assert f"line 3: /create {room}\nA room named {room} already exists." in done.err
    assert "Stopped after line 3; 2 lines after it did not run." in done.err
    assert "wrong" not in alice.does(f"look --room {room}")
    assert alice.run("", f"/join {room}\n/describe right\n", "-T").status == 0
    assert "right" in alice.does(f"look --room {room}")


def test_batch_marks_the_wrong_word_under_its_line(alice: Person) -> None:
    done = alice.run("", "/look\n/jion den\n/look\n", "-T")
    assert "line 2: /jion den\n        ^^^^^\nUnknown verb /jion. Did you mean /join" in done.err


def test_batch_that_keeps_going_runs_every_line_and_exits_with_1(alice: Person, room: str) -> None:
    script = f"/join nowhere-at-all\n/join {room}\n/run sshwarma:nothing\n/describe reached\n"
    done = alice.run("batch --keep-going", script)
    assert done.status == 1
    assert "line 1: /join nowhere-at-all\n" in done.err
    assert "line 3: /run sshwarma:nothing\n" in done.err
    assert "reached" in alice.does(f"look --room {room}")
    assert alice.run("batch", "/look\n").status == 0
    assert "Usage: ssh HOST batch" in alice.run("batch --wrong", "/look\n").err


def test_person_without_a_terminal_goes_on_after_a_wrong_line(alice: Person) -> None:
    shell = alice.pipe()
    assert shell.stdin and shell.stdout
    for typed, expected in (("/jion den", "Unknown verb"), ("/version", "sshwarma ")):
        shell.stdin.write(f"{typed}\n".encode())
        shell.stdin.flush()
        while expected not in (heard := shell.stdout.readline().decode()):
            assert heard
    shell.stdin.close()
    while shell.stdout.readline():
        pass
    assert shell.wait(60) == 1


def test_batch_over_the_line_rate_is_slowed_and_whole(serve: Callable[..., Server]) -> None:
    ann = serve(limits__lines_per_10_seconds=40).person("ann")
    script = "".join(f"/note entry {n}\n" for n in range(LINES_OVER_THE_RATE))
    done = ann.run("", script, "-T")
    assert (done.status, done.err) == (0, "")
    entries = ann.run(f"journal all {LINES_OVER_THE_RATE} --json", b"", "-T").json["entries"]
    assert [entry["text"] for entry in entries] == [
        f"entry {n}" for n in range(LINES_OVER_THE_RATE)
    ]


def test_script_of_500_reads_is_not_refused(serve: Callable[..., Server]) -> None:
    ann = serve(limits__lines_per_10_seconds=5).person("ann")
    done = ann.run("", "/version\n" * 500, "-T")
    assert done.status == 0
    assert done.out.count("sshwarma ") == 500
    for _ in range(10):
        assert ann.run("version").status == 0
    ann.hang_up()


def test_open_and_silent_input_is_announced(alice: Person) -> None:
    assert alice.run("say no input at all", b"", "-T").err == ""
    process = alice.pipe("-o", "RemoteCommand=say hello")
    assert process.stdout and process.stdin
    heard = process.stdout.read().decode()
    assert "alice" in heard and ": hello\n" in heard
    assert "Standard input was not read: it was open, and empty for 0.3 s." in heard


@pytest.mark.parametrize("verb", ["toolset import", "tool new", "file put", "look", "gc"])
def test_help_flag_shows_the_help_and_reads_no_input(alice: Person, verb: str) -> None:
    asking = subprocess.Popen(
        [*alice.ssh("-T"), f"{verb} --help"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert asking.stdout and asking.stdin
    assert asking.wait(30) == 0, "its input is open and empty"
    assert asking.stdout.read() == alice.does(f"help {verb}")
    asking.communicate()


@pytest.mark.parametrize(
    ("asked", "topic"),
    [
        ("file edit --help", "file edit"),
        ("file edit notes.md --help", "file edit"),
        ("tool edit dice --help", "tool edit"),
        ("look north --help", "look"),
        ("file edit -h", "file edit"),
    ],
)
def test_help_flag_stands_behind_arguments_too(alice: Person, asked: str, topic: str) -> None:
    assert alice.does(asked) == alice.does(f"help {topic}")


def test_input_that_is_not_text_is_refused(alice: Person, room: str) -> None:
    for raw, problem in (
        (b"\x89PNG\r\n", "is not UTF-8 text: byte 0 is 0x89"),
        (b"abc\xff", "is not UTF-8 text: byte 3 is 0xff"),
        (b"abc\0def", "is not text: character 3 is NUL"),
    ):
        done = alice.run("put picture", raw)
        assert done.status == 2
        assert f"Piped input {problem}." in done.err
    done = alice.run("", b"/look\n\xff\xfe\n/look\n", "-T")
    assert (done.status, "The line is not UTF-8 text" in done.err) == (1, True)
    assert "picture" not in alice.does("inv all")


def test_too_long_input_is_refused_before_it_has_ended(alice: Person) -> None:
    process = alice.pipe("-o", "RemoteCommand=put big")
    assert process.stdin and process.stdout
    with contextlib.suppress(BrokenPipeError):
        for _ in range(20):
            process.stdin.write(b"x" * 100_000)
            process.stdin.flush()
    assert "piped input: must have at most 1048576 bytes" in process.stdout.read().decode()
    assert process.wait(60) == 2


def test_message_has_the_same_limit_from_a_pipe(alice: Person) -> None:
    done = alice.run("say", "word " * 20_000)
    assert done.status == 2
    assert "text: must have at most 16384 bytes (got 99999)." in done.err


def test_text_too_long_for_the_editor_is_refused_at_once(alice: Person, room: str) -> None:
    alice.run("put me:long", "x" * 17_000)
    screen = alice.sit(room=room)
    screen.enter("/edit me:long")
    screen.wait_for("too long for the line editor")
    assert screen.input.rstrip().endswith(f"{room}>")


@pytest.fixture
def talkers(serve: Callable[..., Server]) -> tuple[Person, Person]:
    """Two people in a world of their own, in which messages may be a megabyte."""
    server = serve(limits__line_bytes=1_048_576, limits__lines_per_10_seconds=100_000)
    return server.person("ann"), server.person("carl", "guest")


def test_history_with_a_long_message_is_shown_to_who_reads(talkers: tuple[Person, Person]) -> None:
    ann, carl = talkers
    carl.run("say", "word " * 199_000)
    screen = ann.sit()
    for command in ("/history", "/history --row 1"):
        screen.enter(command)
        screen.enter(f"/note after {len(command)}")
        screen.wait_for(f"after {len(command)}")
    assert "stopped reading" not in screen.text
    carl.hang_up()


def test_slow_reader_of_long_messages_stays_connected(talkers: tuple[Person, Person]) -> None:
    ann, carl = talkers
    screen = ann.sit()
    screen.process.send_signal(signal.SIGSTOP)
    script = "".join(f"{number} {'long ' * 1_100}\n" for number in range(1_500))
    assert carl.run("", f"{script}the end\n", "-T").status == 0
    screen.process.send_signal(signal.SIGCONT)
    screen.wait_for("carl: the end")
    assert b" lines skipped]" in screen.raw
    screen.enter("still here")
    screen.wait_for("ann: still here")


def test_pages_of_history_are_bounded_in_characters(talkers: tuple[Person, Person]) -> None:
    ann, carl = talkers
    for _ in range(4):
        carl.run("say", "word " * 100_000)
    page = ann.run("history 200 --json", b"", "-T").json
    assert len(page["entries"]) == 2
    older = page["older"]["before"]
    rest = ann.run(f"history 200 --before {older} --json", b"", "-T").json
    assert rest["entries"][-1]["seq"] == older - 1
    assert len(ann.run("search word --n 200 --json", b"", "-T").json["entries"]) == 3
    carl.hang_up()


@pytest.mark.parametrize("enter", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("end", ["", "\x04"], ids=["end of input", "ctrl-d"])
def test_lines_before_the_end_of_a_terminal_run_first(
    alice: Person, room: str, enter: str, end: str
) -> None:
    """The keys of a pipe come before the first screen, and its end, too."""
    lines = [f"/join {room}", "hello all", "/describe built", "/who", "hello again"]
    done = alice.run("", "".join(line + enter for line in lines) + end, "-tt")
    assert done.status == 0
    assert "Who is here:" in done.out
    assert done.out.count("Goodbye.") == 1
    said = [entry["text"] for entry in alice.json(f"history --room {room}")["entries"]]
    assert [text for text in said if text.startswith("hello")] == ["hello all", "hello again"]
    assert "built" in alice.does(f"look --room {room}")


def test_line_without_enter_at_the_end_of_a_terminal_is_named(alice: Person, room: str) -> None:
    done = alice.run("", f"/join {room}\n/describe wrong", "-tt")
    assert "not sent: /describe wrong" in done.out
    assert "wrong" not in alice.does(f"look --room {room}")
