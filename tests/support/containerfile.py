"""Reads a Containerfile: its stages, and the instructions of each."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field


@dataclass
class Stage:
    """One stage; `steps` are its instructions and their arguments, in order."""

    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, instruction: str) -> list[str]:
        """The arguments of every such instruction."""
        return [argument for name, argument in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        """The argument of the only such instruction."""
        (argument,) = self.all(instruction)
        return argument

    @property
    def environ(self) -> dict[str, str]:
        """What ENV sets."""
        pairs = [word.split("=", 1) for text in self.all("ENV") for word in shlex.split(text)]
        return {pair[0]: pair[1] for pair in pairs}

    def command(self, instruction: str) -> list[str]:
        """The words of an instruction in JSON form, without its options."""
        argument = self.one(instruction)
        return [str(word) for word in json.loads(argument[argument.index("[") :])]


def read_stages(text: str) -> list[Stage]:
    """The stages of a Containerfile."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).split("\n"):
        if not line.strip():
            continue
        name, argument = line.split(None, 1)
        if name == "FROM":
            stages.append(Stage())
        stages[-1].steps.append((name, argument.strip()))
    return stages
