"""The calls of scripts that a request comes from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class CallCounter:
    """The number of tool calls that one request has caused, at any depth."""

    calls: int = 0


@dataclass(slots=True)
class CallRun:
    """What becomes known of a call while it runs, and is recorded with its end.

    Attributes:
        waited: seconds in which it waited, for an approval or for its turn.
        changes: what it changed of the files, in words, unless its result says it.
    """

    waited: float = 0.0
    changes: str = ""


@dataclass(frozen=True, slots=True)
class CallStack:
    """The calls of scripts, outermost first, that a request comes from.

    `names` are the running tools and commands. `is_trial`: whether it is a test of a tool, of which
    no log keeps anything. `run` is that of the innermost.
    """

    names: tuple[str, ...]
    turn_id: str | None = None
    row_id: str | None = None
    is_trial: bool = False
    counter: CallCounter = field(default_factory=CallCounter)
    run: CallRun = field(default_factory=CallRun)

    @property
    def is_nested(self) -> bool:
        """Whether another tool or command makes the call, and not its caller."""
        return len(self.names) > 1


def name_scripts(command: str, stack: CallStack | None) -> str:
    """Return what scripts make a request, for the audit; "" for none.

    The outermost is first: "/greet: den:dice". Without a call, the line has it.
    """
    if stack is None:
        return ""
    names = [command, *stack.names[:-1]]
    return ": ".join(dict.fromkeys(name for name in names if name))
