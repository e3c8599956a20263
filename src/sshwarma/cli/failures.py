"""Errors that a command reports in a sentence; others keep their traceback."""

from __future__ import annotations

from sshwarma.common.os_errors import describe_os_error


def is_reported(error: Exception) -> bool:
    """Return whether the message of an error is for the operator.

    The types are imported only after a failure: a command imports the modules it needs and no
    others.
    """
    from sshwarma.admin.backup_archive import InvalidBackupError
    from sshwarma.admin.data_dir_lock import DataDirInUseError
    from sshwarma.admin.data_dir_owner import ForeignDataDirError
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
    return describe_os_error(error) if isinstance(error, OSError) else str(error)
