"""The filter answers as meant on each kind of machine."""

from __future__ import annotations

import errno
import socket
import struct

import pytest

from sshwarma.sandbox.seccomp import make_filter

ALLOWED = 0x7FFF0000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
NUMBERS = {
    "x86_64": {"seccomp": 317, "prctl": 157, "sendfile": 40, "clone": 56, "socket": 41, "read": 0},
    "aarch64": {"seccomp": 277, "prctl": 167, "sendfile": 71, "clone": 220, "socket": 198,
                "read": 63},
}  # fmt: skip
MACHINES = pytest.mark.parametrize("machine", sorted(NUMBERS))


def ask(machine: str, call: str, *arguments: int) -> int:
    """Run the filter for a call; return the error, 0 if the call is allowed."""
    words = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    data = struct.pack("=IIQ6Q", NUMBERS[machine][call], AUDIT[machine], 0, *words)
    steps = list(struct.iter_unpack("=HBBI", make_filter(machine)))
    at = held = 0
    while True:
        code, if_true, if_false, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x54:
                held &= value
            case 0x15 | 0x35 | 0x45:
                met = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[code]
                at += if_true if met else if_false
            case 0x06:
                if value == ALLOWED:
                    return 0
                assert value >> 16 == 5, hex(value)
                return int(value & 0xFFFF) or -1
            case _:
                pytest.fail(f"unknown instruction {code:#x}")


@MACHINES
def test_no_filter_can_be_added(machine: str) -> None:
    """To free thousands of filters at once can block the kernel."""
    assert ask(machine, "seccomp", 1) == errno.ENOSYS
    assert ask(machine, "prctl", 22, 2) == errno.EINVAL


@MACHINES
def test_other_calls_are_answered_as_meant(machine: str) -> None:
    assert ask(machine, "read") == 0
    assert ask(machine, "prctl", 38, 1) == 0  # PR_SET_NO_NEW_PRIVS
    assert ask(machine, "prctl", 4, 0) == errno.EPERM
    assert ask(machine, "sendfile") == errno.EINVAL
    assert ask(machine, "clone", 0x10000000) == errno.EPERM
    assert ask(machine, "clone", 0x3D0F00) == 0  # a thread of the C library
    assert ask(machine, "socket", socket.AF_UNIX) == 0
    assert ask(machine, "socket", 16) == errno.EAFNOSUPPORT
