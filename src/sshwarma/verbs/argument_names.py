"""Names of arguments in errors about settings, as the caller gave them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sshwarma.world.caller import Caller


def name_arguments(caller: Caller, text: str, parameters: Mapping[str, str]) -> str:
    """Replace names of settings by those of the arguments.

    Over ssh, `--key-env` replaces `key_env`. A program gives arguments by the names of the
    parameters.

    Args:
        caller: who gave the arguments.
        text: a sentence that names settings.
        parameters: the parameter of each setting that a flag sets.
    """
    as_flags = caller.reader.is_person
    arguments = {
        setting: f"--{name.replace('_', '-')}" if as_flags else name
        for setting, name in parameters.items()
    }
    pattern = "|".join(map(re.escape, arguments))
    return re.sub(rf"(?<![\w$-])(?:{pattern})(?![\w-])", lambda found: arguments[found[0]], text)
