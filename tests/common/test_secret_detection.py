"""What looks like a key, and what does not."""

from __future__ import annotations

import pytest

from sshwarma.common.secret_detection import has_key_prefix, is_secret_line, looks_like_key

KEYS = (
    "sk-proj-AbCdEfGhIjKlMnOp1234567890",
    "sk-ant-api03-abcdefghijklmnop-1234567890",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "gsk_abcdefghij1234567890klmnop",
    "hf_abcdefghij1234567890",
    "xai-abcdefghijklmnop12345",
    "ghp_abcdefghijklmnop1234567890",
)
RANDOM = ("0123456789abcdef0123456789abcdef", "dGhpc0lzQVNlY3JldEtleTEyMzQ1")
NAMES = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_TEAMS_KEY_2", "qwen3:8b", "gpt-5.6-luna",
    "accounts/fireworks/models/llama-v3p1-405b-instruct", "Qwen2-5-VL-72B-Instruct-AWQ-4bit",
    "http://127.0.0.1:11434/v1", "/etc/sshwarma/anthropic.key", "You are terse.", "task-12345",
    "risk-assessments-2024-and-more-words",
)  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_key_prefix_is_detected_anywhere_in_a_text(key: str) -> None:
    for text in (key, f"my key is {key}, yes", f"https://example.org/?key={key}"):
        assert has_key_prefix(text)
        assert looks_like_key(text)


@pytest.mark.parametrize("key", RANDOM)
def test_long_random_word_looks_like_a_key_without_a_prefix(key: str) -> None:
    assert looks_like_key(key)
    assert not has_key_prefix(key)


@pytest.mark.parametrize("name", NAMES)
def test_names_and_addresses_are_not_keys(name: str) -> None:
    assert not looks_like_key(name)
    assert not has_key_prefix(name)


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("/mcp login tickets", True),
        ("/mcp add tickets https://mcp.example.org/mcp", True),
        ("/mcp login tickets http://127.0.0.1:2280/oauth/callback?code=abc&state=def", False),
        ("  /MCP  login tickets code=abc", False),
        (f"look at {KEYS[0]}", False),
        (f"/model add a --key {RANDOM[0]}", False),
        (f"it is {RANDOM[0]}", True),
    ],
)
def test_lines_with_a_key_or_an_invite_code_are_secret(line: str, kept: bool) -> None:
    assert is_secret_line(line) is not kept
