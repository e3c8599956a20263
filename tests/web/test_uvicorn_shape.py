"""The parts of uvicorn that `web._uvicorn` leans on have not changed.

If this fails after an upgrade: read the change, adapt our use of it if it must be, then put the
new digest here. They bound how long a client may take to send a request, and write chunks.
"""

from __future__ import annotations

import pytest

from support.source_digest import digest_of

READ_AT = "0.54.0"

DIGESTS = {
    "uvicorn.protocols.http.h11_impl:H11Protocol.__init__": "ad1ed8e837b2",
    "uvicorn.protocols.http.h11_impl:H11Protocol.connection_made": "6efb565ff3d3",
    "uvicorn.protocols.http.h11_impl:H11Protocol.connection_lost": "dbb688fa2b38",
    "uvicorn.protocols.http.h11_impl:H11Protocol.data_received": "e03b145518ca",
    "uvicorn.protocols.http.h11_impl:H11Protocol.handle_events": "e63a9d1492e3",
    "uvicorn.protocols.http.h11_impl:H11Protocol.on_response_complete": "1fbb8f48c6a1",
    "uvicorn.protocols.http.h11_impl:RequestResponseCycle.__init__": "d245415af679",
    "uvicorn.protocols.http.h11_impl:RequestResponseCycle.send": "76b4bcb0998b",
    "h11._writers:ChunkedWriter": "816f6bf8247f",
    "uvicorn.protocols.websockets.websockets_sansio_impl:WebSocketsSansIOProtocol.__init__": (
        "631dcd744eab"
    ),
    "uvicorn.protocols.websockets.websockets_sansio_impl:WebSocketsSansIOProtocol"
    ".connection_made": "f533ec93747c",
    "uvicorn.protocols.websockets.websockets_sansio_impl:WebSocketsSansIOProtocol"
    ".run_asgi": "662375aa38d9",
}


@pytest.mark.parametrize("name", DIGESTS)
def test_overridden_uvicorn_code_is_unchanged(name: str) -> None:
    assert digest_of(name) == DIGESTS[name], f"{name} changed since {READ_AT}; read it first"
