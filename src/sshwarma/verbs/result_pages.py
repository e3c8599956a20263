"""Pages of results: whether there is one, and where."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection

from sshwarma.services import services_of
from sshwarma.toolsets import records
from sshwarma.toolsets.frame_page import find_embedding_problem, find_frame_url
from sshwarma.verbs.render_views import PAGE_PROBLEM_KEY
from sshwarma.world.builtin_containers import BUNDLE_KEY
from sshwarma.world.caller import Caller
from sshwarma.world.errors import Forbidden, NotFound

PAGE_RENDERERS: Final = ("html", "frame")
"""Renderers whose results are shown by a page."""


async def add_page_problem(
    caller: Caller, plan: dict[str, Any] | None, tool: str
) -> dict[str, Any] | None:
    """Return a plan with the reason why it has no page, for a terminal.

    Args:
        caller: who reads it; programs get the plan as it is.
        plan: the plan.
        tool: name of the tool.
    """
    if plan is None or not caller.reader.is_person or caller.wants_json:
        return plan
    if plan.get("renderer") not in PAGE_RENDERERS:
        return plan
    try:
        await caller.world.store.read(lambda conn: find_page(conn, caller, plan, tool))
    except (NotFound, Forbidden) as error:
        return {**plan, PAGE_PROBLEM_KEY: error.message}
    return plan


def find_page(conn: Connection, caller: Caller, plan: dict[str, Any], tool: str) -> str:
    """Return the hash of the page that shows a result; "" if that embeds an address.

    Raises:
        NotFound: if the toolset does not have it any more.
        Forbidden: if the address may not be embedded.
    """
    config = plan["config"]
    if plan["renderer"] == "html":
        return _find_artifact(conn, tool, str(config.get("artifact")))
    url = find_frame_url(config) or ""
    hosts = services_of(caller).settings.http.frame_hosts
    if url and (problem := find_embedding_problem(url, hosts)):
        raise Forbidden(problem, hint=f"Open it by itself: {url}")
    return ""


def _find_artifact(conn: Connection, tool: str, path: str) -> str:
    """Return the hash of a page of the toolset that has a tool, or its server.

    Raises:
        NotFound: if it is not installed any more, or does not have the page.
    """
    name = tool.partition(":")[0]
    for space in records.list_toolsets(conn):
        servers = space.metadata[BUNDLE_KEY].get("mcp_servers", ())
        if name == space.label or name in [server["id"] for server in servers]:
            for file in records.read_files(conn, space.label):
                if file.path == path:
                    return file.sha256
            raise NotFound(f"The toolset {space.label} has no page {path} any more.")
    raise NotFound(f"The toolset of {tool} is not installed any more, and so has no pages.")
