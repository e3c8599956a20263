"""The filter of system calls inside the sandbox, as a program for seccomp.

Namespaces leave open what is not of a namespace: keyrings, io_uring, sockets of virtual machines,
namespaces within. Each refused call takes two instructions, so that no jump is long.
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from typing import Final, NamedTuple

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_KEEP_BITS: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000  # and the error

_NUMBER_OFFSET: Final = 0
_MACHINE_OFFSET: Final = 4
_ARGUMENT_OFFSET: Final = 16
"""Of the first argument's lower half, on machines whose lower bytes come first."""

_X32_BIT: Final = 0x40000000

_NEW_NAMESPACES: Final = 0x7E020080
"""CLONE_NEW* of `clone`: time, mount, cgroup, uts, ipc, user, pid, net."""

_FAMILIES: Final = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6)

_EVERYWHERE: Final = {
    "pidfd_getfd": 438, "quotactl_fd": 443, "io_uring_setup": 425, "io_uring_enter": 426,
    "io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431,
    "fsmount": 432, "fspick": 433, "mount_setattr": 442, "open_tree_attr": 467,
}  # fmt: skip
"""Calls that have the same number on every machine."""

_LANDLOCK: Final = {
    "landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446,
}  # fmt: skip
"""Calls for rules, in memory of the kernel that is nobody's; the same numbers everywhere."""

_THREAD_FLAGS: Final = 0x10400
"""CLONE_THREAD and CLONE_FILES of `clone`: a thread has the files of its process, or the server
would have to look at those of each."""

_OWN_THREAD: Final = 0x10000
"""CLONE_THREAD alone."""

_SHARED_FILES: Final = 0x400
"""CLONE_FILES alone: locks of a file outlive the process that took them, if another has its files,
and the kernel shows them as nobody's."""

_OWN_FILES: Final = 2
"""CLOSE_RANGE_UNSHARE of `close_range`, which would give a thread files of its own as well."""

_IGNORED_OPTIONS: Final = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and those with FORCE: a call that sets one does nothing, and succeeds."""

_ZERO_COPY: Final = 60
"""SO_ZEROCOPY: a socket keeps the pages that it sends, and one page its whole huge page."""

_SET_DUMPABLE: Final = 4
"""PR_SET_DUMPABLE of `prctl`: it could hide what a process has opened from the server."""

_SET_FILTER: Final = 22
"""PR_SET_SECCOMP of `prctl`: filters are memory of the kernel that is nobody's, and to free some
thousand of them at once can block it for good."""

_SET_PIPE_SIZE: Final = 1031
"""F_SETPIPE_SZ of `fcntl`."""

_OPEN_FILE_LOCKS: Final = (37, 38)
"""F_OFD_SETLK and F_OFD_SETLKW of `fcntl`: the kernel shows no owner of these locks."""

_SHARED_NAMELESS: Final = 0x21
"""MAP_SHARED and MAP_ANONYMOUS of `mmap`: memory that stays full while any part of it is mapped, of
which the kernel shows no owner how much that is."""

_X86_64: Final = {
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "mount": 165,
    "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "add_key": 248, "request_key": 249,
    "keyctl": 250, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "init_module": 175,
    "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320,
    "personality": 135, "quotactl": 179, "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163,
    "settimeofday": 164, "clock_settime": 227, "syslog": 103, "fanotify_init": 300, "vhangup": 153,
    "iopl": 172, "ioperm": 173, "modify_ldt": 154,
}  # fmt: skip

_AARCH64: Final = {
    "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "mount": 40,
    "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
    "open_by_handle_at": 265, "name_to_handle_at": 264, "add_key": 217, "request_key": 218,
    "keyctl": 219, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "init_module": 105,
    "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
    "personality": 92, "quotactl": 60, "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89,
    "settimeofday": 170, "clock_settime": 112, "syslog": 116, "fanotify_init": 262, "vhangup": 58,
}  # fmt: skip


class _Machine(NamedTuple):
    """The calls of a kind of processor, by their numbers.

    Attributes:
        audit_number: of the machine itself.
        refused: calls that are refused.
        checked: calls whose arguments decide.
        hoarding: calls that keep what is no process's, such as memory.
        copying: `sendfile`, `splice` and `tee`, which keep it, too.
        watching: `inotify_init` in its forms.
    """

    audit_number: int
    refused: dict[str, int]
    checked: dict[str, int]
    hoarding: dict[str, int]
    copying: tuple[int, ...]
    watching: tuple[int, ...]


_MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E, _X86_64,
        {"clone": 56, "clone3": 435, "socket": 41, "setsockopt": 54, "fcntl": 72,
         "prctl": 157, "mmap": 9, "close_range": 436},
        {"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "semget": 64, "msgget": 68,
         "mq_open": 240, "vmsplice": 278, "io_setup": 206, "seccomp": 317,
         **_LANDLOCK},
        (40, 275, 276),
        (253, 294),
    ),
    "aarch64": _Machine(
        0xC00000B7, _AARCH64,
        {"clone": 220, "clone3": 435, "socket": 198, "setsockopt": 208, "fcntl": 25,
         "prctl": 167, "mmap": 222, "close_range": 436},
        {"memfd_create": 279, "memfd_secret": 447, "shmget": 194, "semget": 190,
         "msgget": 186, "mq_open": 180, "vmsplice": 75, "io_setup": 0, "seccomp": 277,
         **_LANDLOCK},
        (71, 76, 77),
        (26,),
    ),
}  # fmt: skip


class UnknownMachineError(Exception):
    """No filter is known for this kind of processor."""


def make_filter(machine: str = "", *, is_root: bool = False) -> bytes:
    """Return the filter for a kind of processor, such as "x86_64"; "" is this one.

    With `is_root`, for the programs of a server that runs as root, no file can be watched: the
    kernel counts watchers for each user, and those of the machine's root would find none left.

    Raises:
        UnknownMachineError: if none is known.
    """
    machine = machine or platform.machine()
    if machine not in _MACHINES:
        raise UnknownMachineError(f"no filter of system calls is known for {machine}")
    calls = _MACHINES[machine]
    program = [
        _step(_LOAD, _MACHINE_OFFSET),
        _step(_EQUAL, calls.audit_number, 1, 0),
        _step(_RETURN, _KILL),  # another machine's calls have other numbers
        _step(_LOAD, _NUMBER_OFFSET),
    ]
    if machine == "x86_64":
        program += [_step(_AT_LEAST, _X32_BIT, 0, 1), _refuse(errno.ENOSYS)]
    for number in sorted({*calls.refused.values(), *_EVERYWHERE.values()}):
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    for number in calls.hoarding.values():
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.ENOSYS)]
    # As for files that cannot be copied in this way: Java and libuv then read and write, but not
    # where a call does not exist (ENOSYS).
    for number in calls.copying:
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EINVAL)]
    for number in calls.watching if is_root else ():
        program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EMFILE)]
    # Its flags are in memory, which a filter cannot read; the C library then uses clone.
    program += [_step(_EQUAL, calls.checked["clone3"], 0, 1), _refuse(errno.ENOSYS)]
    program += _check_arguments(calls.checked)
    return b"".join(program)


def _check_arguments(checked: dict[str, int]) -> list[bytes]:
    """Return the part for calls whose arguments decide; each ends with an answer."""
    return [
        _step(_EQUAL, checked["clone"], 0, 7),
        _step(_LOAD, _ARGUMENT_OFFSET),
        _step(_ANY_BIT, _NEW_NAMESPACES, 3, 0),
        _step(_KEEP_BITS, _THREAD_FLAGS),
        _step(_EQUAL, _OWN_THREAD, 1, 0),
        _step(_EQUAL, _SHARED_FILES, 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, checked["close_range"], 0, 4),
        _step(_LOAD, _ARGUMENT_OFFSET + 16),
        _step(_ANY_BIT, _OWN_FILES, 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, checked["fcntl"], 0, len(_OPEN_FILE_LOCKS) + 5),
        _step(_LOAD, _ARGUMENT_OFFSET + 8),
        *(
            _step(_EQUAL, command, len(_OPEN_FILE_LOCKS) + 2 - n, 0)
            for n, command in enumerate(_OPEN_FILE_LOCKS)
        ),
        _step(_EQUAL, _SET_PIPE_SIZE, 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _refuse(errno.EINVAL),  # as a kernel that does not know them
        _step(_EQUAL, checked["mmap"], 0, 5),
        _step(_LOAD, _ARGUMENT_OFFSET + 24),
        _step(_KEEP_BITS, _SHARED_NAMELESS),
        _step(_EQUAL, _SHARED_NAMELESS, 0, 1),
        _refuse(errno.EPERM),
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, checked["prctl"], 0, 6),
        _step(_LOAD, _ARGUMENT_OFFSET),
        _step(_EQUAL, _SET_DUMPABLE, 0, 1),
        _refuse(errno.EPERM),
        _step(_EQUAL, _SET_FILTER, 0, 1),
        _refuse(errno.EINVAL),  # as a kernel without them
        _step(_RETURN, _ALLOW),
        _step(_EQUAL, checked["setsockopt"], 0, len(_IGNORED_OPTIONS) + 7),
        _step(_LOAD, _ARGUMENT_OFFSET + 8),
        _step(_EQUAL, socket.SOL_SOCKET, 0, len(_IGNORED_OPTIONS) + 3),
        _step(_LOAD, _ARGUMENT_OFFSET + 16),
        _step(_EQUAL, _ZERO_COPY, 0, 1),
        _refuse(errno.EPERM),
        *(
            _step(_EQUAL, option, len(_IGNORED_OPTIONS) - n, 0)
            for n, option in enumerate(_IGNORED_OPTIONS)
        ),
        _step(_RETURN, _ALLOW),
        _refuse(0),
        _step(_EQUAL, checked["socket"], 0, len(_FAMILIES) + 2),
        _step(_LOAD, _ARGUMENT_OFFSET),
        *(_step(_EQUAL, family, len(_FAMILIES) - n, 0) for n, family in enumerate(_FAMILIES)),
        _refuse(errno.EAFNOSUPPORT),
        _step(_RETURN, _ALLOW),
    ]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction; the jumps are how many of the next ones are left out."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _REFUSE | error)
