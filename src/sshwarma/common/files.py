"""Files that are complete when they get their names."""

from __future__ import annotations

import os
from pathlib import Path


def give_name(file: Path, name: Path) -> None:
    """Give a complete file its name; replace nothing, also without hard links.

    Raises:
        FileExistsError: if a file has that name.
    """
    try:
        os.link(file, name)
    except FileExistsError:
        raise
    except OSError:  # such as a memory stick
        if name.exists():
            raise FileExistsError(f"{name} already exists. Choose another.") from None
        file.rename(name)
