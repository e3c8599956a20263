"""A typed client that a generator makes from the description of the API."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sshwarma.web.openapi import describe_api
from support.driver import Person, Server

BINARY = ("export_toolset", "import_toolset")
"""Endpoints whose bodies are files, which the generator leaves out."""


@pytest.fixture(scope="module")
def client_package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of a package of generated code."""
    folder = tmp_path_factory.mktemp("generated")
    description = folder / "openapi.json"
    description.write_text(json.dumps(describe_api()))
    generator = Path(sys.executable).with_name("openapi-python-client")
    name = "generated_api_client"
    done = subprocess.run(
        [generator, "generate", "--meta", "none", "--path", description, "--output-path",
         folder / name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    warnings = [line for line in said.splitlines() if line.startswith("WARNING")]
    assert len(warnings) == len(BINARY), warnings
    assert all(any(name in line for name in BINARY) for line in warnings), warnings
    sys.path.insert(0, str(folder))
    return name


def load(package: str, module: str) -> ModuleType:
    return importlib.import_module(f"{package}.{module}")


@pytest.mark.process
def test_generated_client_calls_verbs_with_types(
    world: Server, bob: Person, client_package: str
) -> None:
    token = world.operate("token_new", name=bob.name, scope="act")["token"]
    models = load(client_package, "models")
    client = load(client_package, "client").AuthenticatedClient(f"http://{world.http}", token)

    def call(path: str, **given: Any) -> Any:
        module = load(client_package, f"api.{path.replace('/', '.verb_')}")
        return module.sync(client=client, **given)

    said = call(
        "talking/say", body=models.VerbSayBody("hello from a generated client"),
        idempotency_key="one",
    )  # fmt: skip
    again = call(
        "talking/say", body=models.VerbSayBody("hello from a generated client"),
        idempotency_key="one",
    )  # fmt: skip
    assert said.result.text == "hello from a generated client"
    assert again.result.seq == said.result.seq
    looked = call("looking/look")
    assert looked.result.name == "lobby"
    page = call("remembering/history_show", body=models.VerbHistoryShowBody(n=1))
    assert (page.result.entries[0].text, page.result.entries[0].who) == (said.result.text, bob.name)
    refused = call("talking/say", body=models.VerbSayBody(""))
    assert isinstance(refused, models.Error) and "text" in refused.message
