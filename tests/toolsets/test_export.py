"""Export: the manifest written again, archives of the same bytes, and no secrets."""

from __future__ import annotations

import io
import random
import zipfile
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sshwarma.toolsets.archive import InvalidArchive, read_archive
from sshwarma.toolsets.bundle import read_bundle
from sshwarma.toolsets.export import make_manifest, write_archive
from sshwarma.toolsets.manifest import ToolsetManifest
from sshwarma.toolsets.manifest_reading import check_manifest, read_manifest
from sshwarma.toolsets.secret_values import replace_secrets
from sshwarma.world.errors import Conflict
from toolsets.manifests import whole

BASE: dict[str, Any] = {"manifest_version": "1", "id": "demo", "name": "Demo", "version": "1.0.0"}


def with_server(**fields: Any) -> ToolsetManifest:
    return check_manifest(BASE | {"mcp_servers": [{"id": "web", **fields}]})


def test_manifest_is_readable_and_in_a_fixed_order() -> None:
    manifest = check_manifest(dict(reversed(list(whole().items()))))
    text = make_manifest(manifest).decode()
    assert text.startswith(
        "manifest_version: '1'\nid: demo\nname: Demo\nversion: 1.0.0\n"
        "description: Shows everything.\n\ntools:\n- id: write_file\n"
        "  entrypoint: tools.files:write_file\n"
    )
    assert text == make_manifest(check_manifest(whole())).decode()
    assert "&" not in text and "*" not in text and "null" not in text
    assert read_manifest(text.encode()) == manifest
    assert yaml.safe_load(text)["tools"][1] == {"id": "plot", "entrypoint": "plot:run"}


def test_long_text_is_a_block() -> None:
    manifest = check_manifest(BASE | {"description": "One.\n\nTwo: x\n"})
    assert b"description: |\n  One.\n\n  Two: x\n" in make_manifest(manifest)


TEXTS = st.text("ab 1:#-'\"\n\té\u2028{}[]&*!|>%@`~=,.yn", max_size=24)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**17) + 1, 10**17) | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
IDS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)
TITLES = st.sampled_from(
    ["A", "no", "1.0", "é ü", "a: b # c", "- x", "'quoted'", "~", "2026-01-01"]
)
REFERENCES = st.sampled_from(["${KEY}", "${A}${B}", ""])


@st.composite
def manifests(draw: st.DrawFn) -> ToolsetManifest:
    """Manifests without literal values of servers."""
    tools = [
        {
            "id": tool,
            "entrypoint": f"tools.{draw(st.sampled_from(['a', 'b']))}:run",
            "name": draw(st.none() | TITLES),
            "description": draw(st.none() | TEXTS),
            "input_schema": {"type": "object", "default": draw(JSON)},
            "requires_confirmation": draw(st.none() | st.booleans()),
            "renderer": draw(st.none() | st.just({"type": "code", "content": draw(TEXTS)})),
        }
        for tool in draw(st.lists(IDS, max_size=3, unique=True))
    ]
    targets = [tool["id"] for tool in tools if draw(st.booleans())]
    overrides = [
        {
            "tool_id": target,
            "renderer": "html",
            "renderer_config": {"artifact": "artifacts/x.html", "data": draw(JSON)},
            "enabled": draw(st.none() | st.booleans()),
        }
        for target in targets
    ]
    servers = [
        {"id": "web", "command": "npx", "args": ["-y", "pkg", draw(REFERENCES)],
         "env": {"KEY": draw(REFERENCES)}},
        {"id": "remote", "url": "https://x.example/mcp", "headers": {"A": draw(REFERENCES)}},
    ]  # fmt: skip
    return check_manifest(
        {
            "manifest_version": "1",
            "id": "own-toolset",
            "name": draw(TITLES),
            "version": draw(st.sampled_from(["1.0.0", "1e5", "0x1F", "010", "2026-01-01", "no"])),
            "description": draw(TEXTS),
            "tools": tools,
            "tool_overrides": overrides,
            "mcp_servers": servers if draw(st.booleans()) else [],
            "requirements": draw(st.sampled_from([[], ["humanize==4.15.0"]])),
        }
    )


FILES = {"tools/a.py": b"", "tools/b.py": b"x = 1\n", "artifacts/x.html": b"<p>"}


@given(manifests(), st.dictionaries(st.sampled_from(["a", "b/c", "é"]), st.binary(), max_size=3))
def test_what_was_written_is_read_again(
    manifest: ToolsetManifest, others: dict[str, bytes]
) -> None:
    files = {**FILES, **others}
    export = write_archive(manifest, files)
    bundle = read_bundle(read_archive(export.data))
    assert bundle.manifest == manifest
    assert {path: data for path, data in bundle.contents.items() if path != "toolset.yaml"} == files
    assert not export.replaced
    reordered = dict(reversed(list(bundle.contents.items())))
    assert write_archive(bundle.manifest, reordered).data == export.data


def test_archive_is_read_by_other_programs() -> None:
    files = {**FILES, "zeros": bytes(300_000), "random": random.Random(1).randbytes(5_000)}
    data = write_archive(check_manifest(BASE), files).data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["toolset.yaml", *sorted(files)]
        assert all(archive.read(path) == content for path, content in files.items())
    assert len(data) < 12_000


@pytest.mark.parametrize("path", ["../x", "/x", "a\\b", "a:b", "\ud800", "x" * 70_000])
def test_path_that_an_archive_cannot_have_is_refused(path: str) -> None:
    with pytest.raises(InvalidArchive, match="File"):
        write_archive(check_manifest(BASE), {path: b""})


def test_more_files_than_an_archive_may_have_are_refused() -> None:
    with pytest.raises(InvalidArchive, match=r"at most 2000 files \(got 2001\)"):
        write_archive(check_manifest(BASE), {str(number): b"" for number in range(2_000)})


SECRET = "hunter2secret"

LEAKS: list[dict[str, Any]] = [
    {"command": "npx", "env": {"API_KEY": SECRET}},
    {"command": "npx", "env": {"API_KEY": f"{SECRET}${{X}}"}},
    {"command": "npx", "env": {"API_KEY": f"Bearer {SECRET}"}},
    {"command": "npx", "args": ["--token", SECRET]},
    {"command": "npx", "args": [f"--token={SECRET}"]},
    {"command": "npx", "args": ["-y", "pkg", SECRET]},
    {"command": "npx", "args": ["-y", "pkg", f"-p{SECRET}"]},
    {"command": "npx", "args": ["-k", SECRET, "pkg"]},
    {"command": "npx", "args": ["--key", SECRET]},
    {"command": "npx", "args": [f"--{SECRET}"]},
    {"command": "npx", "args": [f"TOKEN={SECRET}"]},
    {"command": "npx", "args": [f"https://{SECRET}@x.example/"]},
    {"command": "npx", "args": ["-H", f"Authorization: Bearer {SECRET}"]},
    {"command": "npx", "args": [f"--header=Authorization: Bearer {SECRET}"]},
    {"command": "npx", "args": [f"${{X}}{SECRET}"]},
    {"command": "npx", "args": [f"--a=${{X}}{SECRET}"]},
    {"command": "npx", "args": ["-y", f"git+https://{SECRET}@x.example/pkg"]},
    {"command": "npx", "args": ["-y", "sk-live-hunter2secret-abcdef0123456789"]},
    {"command": "other", "args": [SECRET]},
    {"command": "python", "args": ["-c", f"print('{SECRET}')"]},
    {"command": "docker", "args": ["run", "-e", f"KEY={SECRET}", "image"]},
    {"command": "sk-hunter2secret-abcdef0123456789"},
    {"url": "https://x.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
    {"url": "https://x.example/mcp", "headers": {"X-Key": SECRET}},
    {"url": "https://x.example/mcp", "headers": {"X-Key": f"Bearer ${{X}} {SECRET}"}},
    {"url": f"https://x.example/mcp?key={SECRET}"},
    {"url": f"https://x.example/mcp?{SECRET}"},
    {"url": f"https://x.example/mcp?{SECRET}=1"},
    {"url": f"https://x.example/mcp?a=1&b={SECRET}&c=${{X}}"},
    {"url": f"https://x.example/s/{SECRET}/mcp"},
    {"url": f"https://x.example/{SECRET}"},
    {"url": f"https://x.example/mcp#{SECRET}"},
    {"url": f"https://x.example/mcp${{X}}{SECRET}"},
    {"url": f"https://{SECRET}abc.x.example/mcp"},
    {"url": f"https://x.example:{SECRET}/mcp"},
    {"url": f"${{X}}{SECRET}"},
    {"url": f"https://x.example/{'a/' * 900}{SECRET}"},
    {"url": f"https://x.example/${{{'A' * 1_900}}}/a/b/c/d/{SECRET}"},
]


@pytest.mark.parametrize("fields", LEAKS, ids=str)
def test_no_secret_is_written(fields: dict[str, Any]) -> None:
    manifest = with_server(**fields)
    export = write_archive(manifest, {"README.md": b"hello"})
    for path, content in read_archive(export.data).items():
        assert SECRET.encode() not in content, path
    assert SECRET not in repr(export.replaced)
    assert set(export.variables) >= {one.variable for one in export.replaced}
    again = read_bundle(read_archive(export.data)).manifest
    assert replace_secrets(again) == (again, [])
    assert all(part.place.startswith("mcp_servers[0].") for part in export.replaced)


KEPT: list[dict[str, Any]] = [
    {"command": "npx", "args": ["-y", "my-mcp-package"], "env": {"API_KEY": "${MY_API_KEY}"}},
    {"command": "npx", "args": ["@scope/name@1.2.3", "--verbose", "-q"]},
    {"command": "/usr/bin/uvx", "args": ["mcp-server-time==2.0.1", "--zone=${ZONE}"]},
    {"command": "uv", "args": ["tool", "run", "mcp-server-git"]},
    {"command": "python", "args": ["-m", "my_server.main"]},
    {"command": "node", "args": ["dist/index.js", "${WHERE}"]},
    {"url": "https://mcp.example.org/v1/mcp"},
    {"url": "http://localhost:8080/sse", "server_type": "sse"},
    {"url": "https://${HOST}:${PORT}/mcp?key=${KEY}#${X}", "headers": {"A": "Bearer ${KEY}"}},
    {"url": "https://x.example/${PLACE}/mcp?${ALL}", "headers": {"A": "${SCHEME}"}},
    {"url": "${URL}"},
    {"command": "python", "args": ["/ts/server.py", "--port", "8080", "--level=debug", "true"]},
    {"command": "python", "args": ["/ts/server.py", "$WHERE", "--wait=2.5", "localhost"]},
    {
        "command": "python",
        "args": ["-u", "/ts/server.py", "--mode", "fast"],
        "env": {"MODE": "fast"},
    },
    {"url": "https://x.example/mcp", "headers": {"X-Mode": "fast", "Accept": "application/json"}},
    {"command": "npx", "env": {"DEBUG": "1", "LEVEL": "INFO", "PYTHONPATH": "/ts/lib", "A": "$B"}},
]


@pytest.mark.parametrize("fields", KEPT, ids=str)
def test_value_that_is_no_secret_is_kept(fields: dict[str, Any]) -> None:
    manifest = with_server(**fields)
    assert replace_secrets(manifest) == (manifest, [])


@pytest.mark.parametrize(
    "fields",
    [
        {"args": ["--pin", "1234"]},
        {"args": ["--access-token=12345"]},
        {"args": ["-p", "1234"]},
        {"args": ["123456"]},
        {"args": ["$ecret"]},
        {"env": {"PASSCODE": "1234"}},
        {"env": {"PLACE": "production"}},
        {"env": {"MODE": "Fast9"}},
        {"env": {"MODE_KEY": "fast"}},
        {"args": ["-c", "print(1)"]},
        {"env": {"PLACE": "/ts/hunter2"}},
    ],
    ids=str,
)
def test_value_that_may_be_a_secret_is_replaced(fields: dict[str, Any]) -> None:
    (replaced,) = replace_secrets(with_server(command="other", **fields))[1]
    assert (
        replaced.value.encode()
        not in write_archive(with_server(command="other", **fields), {}).data
    )


def test_variables_are_named_for_their_places() -> None:
    manifest = check_manifest(
        BASE
        | {
            "mcp_servers": [
                {
                    "id": "web", "command": "npx", "env": {"API_KEY": "a", "OTHER": "${OTHER_KEY}"},
                    "args": ["pkg", "--city=oslo", "word"],
                },
                {"id": "second", "command": "npx", "env": {"API_KEY": "b", "OTHER_KEY": "c"}},
                {
                    "id": "remote", "url": "https://x.example/abc?key=d",
                    "headers": {"X-Auth": "e"},
                },
            ]
        }
    )  # fmt: skip
    clean, replaced = replace_secrets(manifest)
    assert clean.mcp_servers[0].env == {"API_KEY": "${API_KEY}", "OTHER": "${OTHER_KEY}"}
    assert clean.mcp_servers[0].args == ("pkg", "--city=${WEB_CITY}", "${WEB_ARG_3}")
    assert clean.mcp_servers[1].env == {"API_KEY": "${API_KEY_2}", "OTHER_KEY": "${OTHER_KEY_2}"}
    assert clean.mcp_servers[2].url == "https://x.example/${REMOTE_PATH}?key=${REMOTE_KEY}"
    assert clean.mcp_servers[2].headers == {"X-Auth": "${REMOTE_X_AUTH}"}
    assert {part.variable: part.place for part in replaced}["API_KEY_2"] == (
        "mcp_servers[1].env.API_KEY"
    )
    assert len({part.variable for part in replaced}) == len(replaced) == 8


def test_secret_in_another_file_is_refused() -> None:
    manifest = with_server(command="npx", env={"API_KEY": SECRET})
    with pytest.raises(Conflict, match=r"tools/a.py contains the value of mcp_servers\[0\].env"):
        write_archive(manifest, {"tools/a.py": f"KEY = '{SECRET}'".encode()})
    described = manifest.model_copy(update={"description": f"Use {SECRET}."})
    with pytest.raises(Conflict, match=r"toolset.yaml contains the value of"):
        write_archive(described, {})
    with pytest.raises(Conflict) as refusal:
        write_archive(described, {})
    assert SECRET not in str(refusal.value)


def test_manifest_of_the_files_is_replaced() -> None:
    manifest = with_server(command="npx", env={"API_KEY": SECRET})
    export = write_archive(manifest, {"toolset.yaml": make_manifest(manifest)})
    assert SECRET.encode() not in read_archive(export.data)["toolset.yaml"]


def test_word_in_another_file_is_no_secret() -> None:
    manifest = with_server(command="npx", env={"PLACE": "production"})
    assert write_archive(manifest, {"a.txt": b"production"}).replaced
