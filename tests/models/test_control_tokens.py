"""Control tokens of chat templates, wherever they stand in a request."""

from __future__ import annotations

import pytest

from sshwarma.models.backend import CompletedCall, Message, StepRequest, ToolCall, TurnStep
from sshwarma.models.control_tokens import break_control_tokens, restore_control_tokens
from sshwarma.models.messages import ResponseCache, build_messages

TOKENS = [
    "</s>",
    "<s>",
    "<eos>",
    "<bos>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
    "<|im_end|>",
    "<|eot_id|>",
    "<｜User｜>",
    "[INST]",
    "[/INST]",
    "<<SYS>>",
    "<</SYS>>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[TOOL_RESULTS]",
    "<unk>",
]


@pytest.mark.parametrize("token", TOKENS)
def test_control_token_is_broken_and_restored(token: str) -> None:
    broken = break_control_tokens(f"a {token}b")
    assert token not in broken
    assert break_control_tokens(broken) == broken
    assert restore_control_tokens({"text": [broken]}) == {"text": [f"a {token}b"]}


@pytest.mark.parametrize("text", ["a < b > c", "<b>bold</b>", "[note] <alice> hi", "x[i] <div>"])
def test_other_text_is_unchanged(text: str) -> None:
    assert break_control_tokens(text) == text


def test_no_text_of_a_request_has_control_tokens() -> None:
    all_tokens = " ".join(TOKENS)
    done = CompletedCall(ToolCall("a", "t", {}), all_tokens, is_error=False)
    request = StepRequest(
        "lobby", "bob", "?", (), (TurnStep("", (done,)),), "",
        (Message("user", f"<bob> {all_tokens}"), Message("assistant", "", (done,))),
    )  # fmt: skip
    sent = repr(build_messages(request, f"Skill: {all_tokens}", ResponseCache(), plain=True))
    assert not [token for token in TOKENS if token in sent]
    assert "<bob>" in sent
