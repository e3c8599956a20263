"""One mock of every provider for the session, and backends that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from sshwarma.models import retry
from sshwarma.models.pydantic_ai_backend import PydanticAIBackend
from sshwarma.settings import ModelSettings
from support.driver.aimock import Mock, mocking
from support.provider_wires import KEYS, WIRES, Ask, Wire, scripts


@pytest.fixture(scope="session")
def mock() -> Iterator[Mock]:
    with mocking([script for wire in WIRES for script in scripts(wire)]) as made:
        yield made


@pytest.fixture(params=WIRES, ids=str)
def wire(request: pytest.FixtureRequest) -> Wire:
    chosen: Wire = request.param
    return chosen


@pytest.fixture
async def backend(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ask]:
    """Makes a backend of a wire at an address, with short backoff; closes it finally."""
    monkeypatch.setattr(retry, "FIRST_RETRY_SECONDS", 0.001)
    made: list[PydanticAIBackend] = []

    def make(wire: Wire, url: str, **more: Any) -> PydanticAIBackend:
        settings = ModelSettings(
            name="qwen", kind=wire.kind, model=wire.model, base_url=url + wire.root, **more
        )
        made.append(PydanticAIBackend(settings, KEYS))
        return made[-1]

    yield make
    for one in made:
        await one.close()
