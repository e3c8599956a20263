"""Secrets in plain text in the servers of a manifest: refused with their field."""

from __future__ import annotations

from typing import Any

import pytest

from sshwarma.toolsets.manifest_reading import check_manifest
from sshwarma.toolsets.servers import read_servers
from sshwarma.world.errors import Invalid

KEY = "ghp_" + "a1" * 18
TOP = {"manifest_version": "1", "id": "kit", "name": "Kit", "version": "1"}


def check(server: dict[str, Any]) -> None:
    start = {} if "url" in server else {"command": "npx"}
    read_servers(check_manifest(TOP | {"mcp_servers": [{"id": "srv", **start, **server}]}))


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"args": ["--token", "hunter2hunter2"]}, "args[1]", "the value of --token looks like a"),
    ({"args": ["x", "--password=hunter2"]}, "args[1]", "write --password=${PASSWORD}"),
    ({"args": ["--api-key", "hunter2"]}, "args[1]", "write ${API_KEY}"),
    ({"args": ["-e", "API_TOKEN=hunter2"]}, "args[1]", "write API_TOKEN=${API_TOKEN}"),
    ({"args": ["--header", "Authorization:Bearer hunter2"]}, "args[1]", "write Authorization: ${"),
    ({"args": ["--header=X-Auth: hunter2"]}, "args[0]", "write X-Auth: ${X_AUTH}"),
    ({"args": ["Authorization: Bearer hunter2"]}, "args[0]", "the value of Authorization"),
    ({"args": ["--db", "postgres://bob:hunter2@db/x"]}, "args[1]", "has an address with a pass"),
    ({"args": ["--db=mysql://bob:hunter2@db"]}, "args[0]", "write ${PASSWORD} in its place"),
    ({"args": ["redis://:hunter2@db"]}, "args[0]", "has an address with a password"),
    ({"args": ["https://x.example/?token=hunter2"]}, "args[0]", "write token=${TOKEN}"),
    ({"args": ["-k", KEY]}, "args[1]", "looks like a key"),
    ({"env": {"DSN": "postgres://bob:hunter2@db/x"}}, "env.DSN", "has an address with a pass"),
    ({"env": {"DSN": "postgres://${USER}:hunter2@db"}}, "env.DSN", "has an address"),
    ({"env": {"DSN": "sqlserver://db;user=sa;password=hunter2"}}, "env.DSN", "password=${PASSW"),
    ({"env": {"API_TOKEN": "hunter2"}}, "env.API_TOKEN", "looks like a secret"),
    ({"env": {"WORD": KEY}}, "env.WORD", "looks like a key"),
    ({"command": "postgres://bob:hunter2@db"}, "command", "has an address with a password"),
    ({"url": "https://x.example/mcp?key=hunter2"}, "url", "write key=${KEY}"),
    ({"url": "https://x.example", "headers": {"X-Api-Key": "hunter2"}}, "headers.X-Api-Key", "$"),
    ({"url": "https://x.example", "headers": {"To": "http://a:hunter2@b"}}, "headers.To", "has an"),
]  # fmt: skip


@pytest.mark.parametrize(("server", "place", "said"), REFUSED, ids=lambda value: str(value)[:60])
def test_secret_in_plain_text_is_refused_with_its_field(
    server: dict[str, Any], place: str, said: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        check(server)
    assert refusal.value.message.startswith(f"mcp_servers[0].{place}: ")
    assert said in refusal.value.message and "hunter2" not in refusal.value.message
    assert KEY not in refusal.value.message


ACCEPTED: list[dict[str, Any]] = [
    {"args": ["--token", "${TOKEN}"]},
    {"args": ["--password=${PASSWORD}", "--token=", "--token"]},
    {"args": ["--token", "--verbose", "--no-auth", "serve"]},
    {"args": ["--key-file", "/ts/key.pem"]},
    {"args": ["--header", "Authorization: Bearer ${TOKEN}", "--header=X-Auth:${TOKEN}"]},
    {"args": ["--header", "Accept: text/plain", "--city", "oslo", "key"]},
    {"args": ["--scope", "auth:read", "-c", "import x; token = 3; print(token)"]},
    {"args": ["postgres://bob:${PASSWORD}@db", "https://x.example:80/a@b?page=1", "git@host:a"]},
    {"env": {"DSN": "postgres://bob:${PASSWORD}@db/x", "HOME": "/ts", "URL": "http://bob@x"}},
    {"env": {"PGHOST": "db", "EMPTY_TOKEN": ""}},
    {"url": "https://x.example/mcp?key=${KEY}", "headers": {"Authorization": "Bearer ${KEY}"}},
]


@pytest.mark.parametrize("server", ACCEPTED, ids=str)
def test_variables_and_words_of_no_secret_are_accepted(server: dict[str, Any]) -> None:
    check(server)
