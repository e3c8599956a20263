"""Errors that a command reports in a sentence; others keep their traceback."""

from __future__ import annotations

import errno


def is_reported(error: Exception) -> bool:
    """Return whether the message of an error is for the operator.

    The types are imported only after a failure: a command imports the modules it needs and no
    others.
    """
    from sshwarma.admin.data_dir_lock import DataDirInUseError
    from sshwarma.admin.data_dir_owner import ForeignDataDirError
    from sshwarma.admin.restore import InvalidBackupError
    from sshwarma.ssh.transport.public_key import UnusableKey
    from sshwarma.world.errors import WorldError
    from sshwarma.world.migrate import SchemaError

    expected = (
        WorldError, DataDirInUseError, ForeignDataDirError, InvalidBackupError, SchemaError,
        UnusableKey, OSError,
    )  # fmt: skip
    return isinstance(error, expected)


def describe_failure(error: Exception) -> str:
    """Return the message of an error, without the number of a system error."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = f": {error.filename}" if error.filename else ""
        return f"The disk is full{where}. Make room, or choose another place."
    if not isinstance(error, OSError) or error.filename is None:
        return str(error)
    match error:
        case FileNotFoundError():
            return f"{error.filename} not found. Check the path."
        case FileExistsError():
            return f"{error.filename} already exists. Choose another."
        case PermissionError():
            return f"Permission denied: {error.filename}."
        case IsADirectoryError():
            return f"{error.filename} is a directory."
        case _:
            return f"{error.filename}: {error.strerror}."
