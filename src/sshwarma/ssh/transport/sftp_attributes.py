"""Attributes of files as asyncssh has them, and as our interfaces do."""

from __future__ import annotations

import stat
import time
from typing import Final

import asyncssh

from sshwarma.common.units import DAY_SECONDS, KIB
from sshwarma.ssh.transport.interfaces import SftpAttributes, SftpChanges, SftpSpace

OWNER: Final = 1000
"""The number of the user and the group that every file shows; `sshfs -o idmap=user` makes it the
person's own."""

BLOCK_BYTES: Final = 4 * KIB
"""Unit of the figures of `df`."""

HALF_A_YEAR_SECONDS: Final = 182 * DAY_SECONDS


def to_attrs(attributes: SftpAttributes) -> asyncssh.SFTPAttrs:
    """Return attributes as asyncssh has them."""
    return asyncssh.SFTPAttrs(
        size=attributes.size,
        uid=OWNER,
        gid=OWNER,
        permissions=attributes.mode,
        atime=attributes.modified_at,
        mtime=attributes.modified_at,
    )


def to_changes(attrs: asyncssh.SFTPAttrs) -> SftpChanges:
    """Return what a client sets."""
    owner = None if attrs.uid is None or attrs.gid is None else (attrs.uid, attrs.gid)
    return SftpChanges(attrs.size, attrs.permissions, None if owner == (OWNER, OWNER) else owner)


def to_space(space: SftpSpace) -> asyncssh.SFTPVFSAttrs:
    """Return the figures of `df`."""
    free = space.free_bytes // BLOCK_BYTES
    return asyncssh.SFTPVFSAttrs(
        bsize=BLOCK_BYTES,
        frsize=BLOCK_BYTES,
        blocks=max(1, space.total_bytes // BLOCK_BYTES),  # sftp calls none an error
        bfree=free,
        bavail=free,
        files=space.total_files,
        ffree=space.free_files,
        favail=space.free_files,
        namemax=255,
    )


def format_line(name: bytes, attributes: SftpAttributes) -> bytes:
    """Return the line of a long list, as `ls -l` has it."""
    changed = time.localtime(attributes.modified_at)
    is_recent = 0 <= time.time() - attributes.modified_at < HALF_A_YEAR_SECONDS
    when = time.strftime("%b %e %H:%M" if is_recent else "%b %e  %Y", changed)
    head = f"{stat.filemode(attributes.mode)}    1 room     room     {attributes.size:>8} {when} "
    return head.encode() + name
