"""What the API says of itself without a token: paths, OpenAPI, a page for people."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import sshwarma
from sshwarma.web.api_docs import DOCS_PATH, render_docs
from sshwarma.web.endpoints import API_PREFIX
from sshwarma.web.openapi import describe_api

OPENAPI_PATH: Final = "/api/openapi.json"

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
"""The page needs nothing but its own style."""


async def _show_docs(request: Request) -> Response:
    page = await asyncio.to_thread(render_docs)
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


async def _describe(request: Request) -> Response:
    return JSONResponse(await asyncio.to_thread(describe_api))


async def _list_paths(request: Request) -> Response:
    described = await asyncio.to_thread(describe_api)
    paths: dict[str, Any] = {
        f"{method.upper()} {path}": operation["summary"]
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    }
    about = {"name": "sshwarma", "version": sshwarma.__version__}
    return JSONResponse(about | {"docs": DOCS_PATH, "openapi": OPENAPI_PATH, "paths": paths})


PAGE_ROUTES: Final = (
    Route("/api", _list_paths),
    Route(API_PREFIX, _list_paths),
    Route(OPENAPI_PATH, _describe),
    Route(DOCS_PATH, _show_docs),
)
