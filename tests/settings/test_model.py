"""Tables of models in the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sshwarma.settings import ModelSettings, load_settings

KEY = "sk-a-key-that-nobody-may-see-0123456789"


def test_models_are_read_from_settings_tables(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text(
        "[[models]]\nname = 'qwen'\nkind = 'ollama'\nmodel = 'qwen3:8b'\n"
        "[[models]]\nname = 'claude'\nkind = 'anthropic'\nmodel = 'claude-sonnet-5-5'\n"
        "key_file = '/etc/sshwarma/anthropic.key'\nmax_output_tokens = 4000\ntemperature = 0.3\n"
    )
    first, second = load_settings(path).models
    assert (first.name, first.kind, first.base_url) == ("qwen", "ollama", None)
    assert second.key_file == Path("/etc/sshwarma/anthropic.key")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "compatible"}, "needs base_url"),
        ({"base_url": "127.0.0.1:8080"}, "must be a URL, such as"),
        ({"base_url": f"https://me:{KEY}@example.org/v1"}, "must not contain a key"),
        ({"key_env": KEY}, "this looks like the key itself"),
        ({"key_env": "A-B"}, "must be the name of an environment variable, such as OPENAI_API_KEY"),
        ({"key_env": "MINE", "key_file": "/k"}, "not both"),
        ({"name": "Qwen"}, "must be a lower-case letter, then"),
        ({"api_key": KEY}, "not permitted"),
    ],
)
def test_invalid_model_settings_do_not_print_a_key(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as raised:
        ModelSettings(**{"name": "qwen", "kind": "openai", "model": "gpt-4o"} | wrong)
    received = " ".join(error["msg"] for error in raised.value.errors())
    assert said in received
    assert KEY not in received
    assert KEY not in str(raised.value)


def test_misplaced_key_in_settings_is_not_printed(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text(f"[[models]]\nname = 'a'\nkind = 'openai'\nmodel = 'b'\nkey = '{KEY}'\n")
    with pytest.raises(ValidationError) as raised:
        load_settings(path)
    assert KEY not in str(raised.value)


def test_model_names_must_be_unique(tmp_path: Path) -> None:
    path = tmp_path / "sshwarma.toml"
    path.write_text("[[models]]\nname = 'qwen'\nkind = 'ollama'\nmodel = 'a'\n" * 2)
    with pytest.raises(ValidationError, match="two models have the name qwen"):
        load_settings(path)
