"""The check of plugins without a server, for their authors."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from sshwarma.admin.load_plugins import list_builtin_tools
from sshwarma.sandbox.host import SandboxHost
from sshwarma.toolsets.plugin_folder import PLUGINS_FOLDER, PluginFiles, read_plugins
from sshwarma.toolsets.plugin_rules import Plugin, describe_plugins
from sshwarma.toolsets.worker_process import TOOLSET_PATH, Workers
from sshwarma.world.resources import resource_dir


def find_checked_folder(folder: Path) -> Path:
    """Return the folder of plugins itself, or `tools/` in the directory given.

    One that is neither is taken for a directory without `tools/`, which is an error.
    """
    inner = folder / PLUGINS_FOLDER
    if inner.is_dir() and not (inner / "__init__.py").exists():
        return inner
    is_itself = folder.name == PLUGINS_FOLDER or any(folder.glob("*/__init__.py"))
    return folder if is_itself else inner


async def check_plugins(root: Path) -> tuple[PluginFiles, tuple[Plugin, ...]]:
    """Read the plugins of a folder by the rules of a server, in sandboxes.

    Raises:
        PluginError: for the first rule that is broken.
    """
    files = await asyncio.to_thread(read_plugins, root)
    with tempfile.TemporaryDirectory() as place:
        code = Path(place, "code")
        await asyncio.to_thread(_write_files, files, code)
        accounts = resource_dir("embedded") / "sandbox"
        host = SandboxHost(accounts, Path(place), Path(place, "devices"))
        if files.folders:
            await host.check()
        mounts = {TOOLSET_PATH: code}
        plugins = await describe_plugins(Workers(host), files, mounts, list_builtin_tools())
    return files, plugins


def _write_files(files: PluginFiles, folder: Path) -> None:
    for path, content in files.contents.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
