"""Runs a program with the system calls of a systemd unit.

`filtered.py CALLS PROGRAM ARGUMENTS...`

CALLS are names separated by commas. Any other call is refused with EPERM, as systemd does by
SystemCallFilter and SystemCallErrorNumber. The filter is made by libseccomp, like its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

ALLOW = 0x7FFF0000
REFUSE = 0x00050000 | errno.EPERM


def main() -> None:
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(REFUSE)))
    for name in sys.argv[1].split(","):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # others are of other processors
            assert seccomp.seccomp_rule_add(context, ctypes.c_uint32(ALLOW), number, 0) == 0
    assert seccomp.seccomp_load(context) == 0
    os.umask(0o077)
    os.execv(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
