"""Control tokens of chat templates, broken so that models read them as text.

Many servers read `</s>` or `<tool_response>` in a message as the token itself, so that a line that
somebody said could end a message or pose as the result of a tool. A zero-width joiner behind the
first character prevents that. pydantic-ai does the same for some of these tokens and some servers.
"""

from __future__ import annotations

import re
from typing import Any, Final

_JOINER: Final = "\u200d"

_NAMES: Final = (
    "s|bos|eos|pad|unk|mask|sep|cls|think|thinking|tools?|tool_calls?|tool_response|tool_results?|"
    "tool_outputs?|function|function_calls?|arg_key|arg_value|start_of_turn|end_of_turn|"
    "start_of_image|end_of_image|fim_prefix|fim_middle|fim_suffix|sys|system|user|assistant"
)
_TAIL: Final = (
    rf"(?:(?<=<)(?:/?(?:{_NAMES})>|</?SYS>>|\|[^\s<>|]{{1,64}}\|?>|[a-z_]{{1,32}}\|>"
    r"|｜[^\s<>｜]{1,64}｜>)"
    r"|(?<=\[)/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|TOOL_CONTENT|IMG)\])"
)
_TOKEN: Final = re.compile(rf"(?={_TAIL})", re.IGNORECASE)
_BROKEN: Final = re.compile(rf"(?<=[<\[]){_JOINER}")


def break_control_tokens(text: str) -> str:
    """Return a text with a zero-width joiner in each control token."""
    return _TOKEN.sub(_JOINER, text) if "<" in text or "[" in text else text


def restore_control_tokens(value: Any) -> Any:
    """Return a call's arguments without the joiners that a model copied into them."""
    if isinstance(value, str):
        return _BROKEN.sub("", value) if _JOINER in value else value
    if isinstance(value, list):
        return [restore_control_tokens(one) for one in value]
    if isinstance(value, dict):
        return {key: restore_control_tokens(one) for key, one in value.items()}
    return value
