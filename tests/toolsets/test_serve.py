"""`sshwarma toolset serve`: the official client of MCP uses a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from sshwarma.common.exit_status import EXIT_USAGE
from sshwarma.toolsets import local_folder
from sshwarma.toolsets.local_folder import read_folder
from sshwarma.world.errors import Invalid
from support.driver.server import PROGRAM
from support.toolset_kit import kit

EXAMPLES = Path(__file__).parents[2] / "examples" / "toolsets"


@pytest.mark.process
async def test_other_host_uses_the_tools_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "sold.csv").write_text("name,count\ntea,3\n")
    server = StdioServerParameters(
        command=str(PROGRAM),
        args=["toolset", "serve", str(EXAMPLES / "data-explorer"), "--workspace", str(tmp_path)],
        env={},
    )
    async with Client(stdio_client(server)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == ["describe", "query"]
        assert tools["query"].input_schema["required"] == ["path", "sql"]
        done = await client.call_tool(
            "query", {"path": "sold.csv", "sql": "SELECT count FROM data"}
        )
        assert done.structured_content is not None
        assert done.structured_content["rows"] == [[3]]
        failed = await client.call_tool("query", {"path": "gone", "sql": "SELECT 1"})
        assert failed.is_error
    assert not list(EXAMPLES.rglob("__pycache__"))


@pytest.mark.process
async def test_host_reads_of_the_tools_what_the_manifest_says(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    code = 'def one():\n    """Of the function."""\n    return 1\n\n\ndef two():\n    return 2\n'
    (tmp_path / "tools" / "few.py").write_text(code + "\n\ndef three():\n    return 3\n")
    (tmp_path / "toolset.yaml").write_text(
        'manifest_version: "1"\nid: few\nname: Few\nversion: "1"\ntools:\n'
        "  - {id: one, entrypoint: 'tools.few:one', name: First, description: Of the entry.}\n"
        "  - {id: two, entrypoint: 'tools.few:two', description: Of the entry.}\n"
        "  - {id: three, entrypoint: 'tools.few:three'}\n"
        "tool_overrides:\n"
        "  - {tool_id: two, name_override: Second, description_override: Of the override.,"
        " requires_confirmation: true}\n"
        "  - {tool_id: three, enabled: false}\n"
    )
    server = StdioServerParameters(
        command=str(PROGRAM), args=["toolset", "serve", str(tmp_path)], env={}
    )
    async with Client(stdio_client(server)) as client:
        listed = (await client.list_tools()).tools
        assert [(one.name, one.title, one.description) for one in listed] == [
            ("one", "First", "Of the entry."), ("two", "Second", "Of the override."),
        ]  # fmt: skip
        assert [(one.meta or {}).get("requires_confirmation") for one in listed] == [None, True]
        for one in listed:  # strict clients refuse null for what is left out
            assert None not in one.model_dump(exclude_unset=True).values()
        assert (await client.call_tool("three", {})).is_error


@pytest.mark.process
async def test_large_schemas_are_served(tmp_path: Path) -> None:
    """More than an argument of a program may have."""
    manifest, source = tmp_path / "toolset.yaml", tmp_path / "tools" / "big.py"
    source.parent.mkdir()
    source.write_text("def big(**given):\n    return sorted(given)\n")
    fields = "".join(
        f"        field_{number}: {{type: string, description: {'x' * 150}}}\n"
        for number in range(270)
    )
    tools = "".join(
        f"  - id: big{number}\n    entrypoint: tools.big:big\n    input_schema:\n"
        f"      type: object\n      properties:\n{fields}"
        for number in range(3)
    )
    manifest.write_text(f'manifest_version: "1"\nid: big\nname: Big\nversion: "1"\ntools:\n{tools}')
    server = StdioServerParameters(
        command=str(PROGRAM), args=["toolset", "serve", str(tmp_path)], env={}
    )
    async with Client(stdio_client(server)) as client:
        listed = (await client.list_tools()).tools
        assert [len(tool.input_schema["properties"]) for tool in listed] == [270] * 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "toolset.yaml is missing"),
        (kit("kit") | {"tools/kit.py": ""} | {"toolset.yaml": "id: x"}, "manifest_version"),
    ],
)
def test_folder_without_a_toolset_is_refused(
    tmp_path: Path, files: dict[str, str], said: str
) -> None:
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    done = subprocess.run(
        [str(PROGRAM), "toolset", "serve", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == EXIT_USAGE and said in done.stderr
    assert "Traceback" not in done.stderr


def test_caches_links_and_hidden_files_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("a.py", ".git/config", "tools/b.py", "tools/__pycache__/b.pyc", ".env"):
        (tmp_path / path).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / path).write_text(path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert read_folder(tmp_path) == {"a.py": b"a.py", "tools/b.py": b"tools/b.py"}
    monkeypatch.setattr(local_folder, "MAX_ARCHIVE_ENTRIES", 1)
    with pytest.raises(Invalid, match=r"too many files \(limit 1\)"):
        read_folder(tmp_path)
    monkeypatch.undo()
    (tmp_path / "a:b").touch()
    with pytest.raises(Invalid, match="must not contain a colon"):
        read_folder(tmp_path)
