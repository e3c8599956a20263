"""Sentences about errors of the operating system, without their numbers."""

from __future__ import annotations

import errno


def describe_os_error(error: OSError) -> str:
    """Return what was wrong, with the file that it concerns."""
    if error.errno == errno.ENOSPC:
        where = f": {error.filename}" if error.filename else ""
        return f"The disk is full{where}. Make room, or choose another place."
    if error.errno == errno.EROFS:
        where = f" of {error.filename}" if error.filename else ""
        return (
            f"The file system{where} is read-only. Mount it writable, or choose another place;"
            " for a service, name it in ReadWritePaths= of its unit."
        )
    if error.filename is None:
        return str(error)
    match error:
        case FileNotFoundError():
            return f"{error.filename} not found. Check the path."
        case FileExistsError():
            return f"{error.filename} already exists. Choose another."
        case PermissionError():
            return f"Permission denied: {error.filename}."
        case IsADirectoryError():
            return f"{error.filename} is a directory. Name a file."
        case NotADirectoryError():
            return f"{error.filename}: a part of this path is a file. Check the path."
        case OSError(errno=errno.ENXIO):
            return f"{error.filename} is a socket. Name a file."
        case _:
            return f"{error.filename}: {error.strerror}."
