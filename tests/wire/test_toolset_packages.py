"""Packages that toolsets require: who installs them, from where, for how long."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.driver import Person, Server
from support.driver.fixtures import serving
from support.http_api import Api
from support.package_index import PackageIndex, make_source, serving_packages
from support.sandboxes import needs_bubblewrap
from support.toolset_kit import kit, pack

pytestmark = needs_bubblewrap

MODULE = (
    'import greeting\n\ndef greet(name: str) -> str:\n    """Greet."""\n'
    "    return greeting.greet(name)\n"
)


@pytest.fixture(scope="module")
def index() -> Iterator[PackageIndex]:
    with serving_packages() as made:
        made.add_wheel("manners", "2.0", {"manners.py": "WORD = 'Good day'\n"})
        made.add_wheel("manners", "3.0", {"manners.py": "WORD = 'Hey'\n"})
        offer_greeting(made)
        yield made


def offer_greeting(index: PackageIndex, end: str = ".") -> None:
    source = f"import manners\n\ndef greet(name):\n    return f'{{manners.WORD}}, {{name}}{end}'\n"
    index.add_wheel("greeting", "1.0", {"greeting.py": source}, "manners<3")


@pytest.fixture(scope="module")
def house(index: PackageIndex) -> Iterator[Server]:
    with serving(environ={"UV_DEFAULT_INDEX": index.address}) as server:
        yield server


@pytest.fixture
def ann(house: Server, name: Callable[[str], str]) -> Iterator[Person]:
    one = house.person(name("ann"), role="owner")
    one.does(f"create {name('bench')}")
    yield one
    one.hang_up()


def polite(kit_id: str, *pins: str, version: str = "1") -> bytes:
    """A toolset whose tool imports a package."""
    files = kit(kit_id, version, functions=("greet",)) | {"tools/kit.py": MODULE}
    files["toolset.yaml"] += f"requirements: [{', '.join(pins)}]\n"
    return pack(files)


def list_packages(house: Server) -> list[Path]:
    return list((house.data_dir / "packages").glob("*/*"))


def test_owner_allows_packages_and_tools_import_them(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    archive = polite(kit_id, "greeting==1.0")
    admin = house.person(name("cal"), role="admin")
    refused = admin.run("toolset import --packages", archive, "-T")
    assert refused.status == 1 and "needs the own right" in refused.err
    refused = ann.run("toolset import", archive, "-T")
    assert refused.status == 2
    assert f"{kit_id} wants packages from the package index" in refused.err
    assert "greeting==1.0. Add --packages to allow it." in refused.err
    assert list_packages(house) == []
    done = ann.run("toolset import --packages", archive, "-T")
    said = (
        f"Installed {kit_id} 1: Kit, 1 tool.\n/equip room {kit_id}:* equips its tools in a room.\n"
    )
    assert (done.status, done.out) == (0, said), done
    assert done.err == "Installing packages: greeting==1.0.\n"
    ann.does(f"equip room {kit_id}:*")
    assert ann.json(f"run {kit_id}:greet name=Ann")["text"] == "Good day, Ann."
    assert ann.json(f"toolset show {kit_id}")["requirements"] == ["greeting==1.0"]
    assert "requires greeting==1.0" in ann.does(f"toolset show {kit_id}")
    other = name("kit")
    assert ann.run("toolset import --packages", polite(other, "greeting==1.0"), "-T").status == 0
    assert len(list_packages(house)) == 1
    ann.does(f"toolset uninstall {kit_id} --yes")
    assert len(list_packages(house)) == 1
    ann.does(f"toolset uninstall {other} --yes")
    assert list_packages(house) == []


def test_packages_are_allowed_in_the_query_of_an_import(
    house: Server, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    archive = polite(kit_id, "greeting==1.0")
    token = house.operate("token_new", name=ann.name, scope="build")["token"]
    api = Api(house, token)
    refused = api.ask("import_toolset", archive, "application/zip")
    assert refused.status == 422 and refused.data["hint"] == "Add packages to allow it."
    unknown = api.ask("import_toolset", archive, "application/zip", {"bogus": "1"})
    assert unknown.status == 422 and "bogus" in unknown.data["message"]
    done = api.ask("import_toolset", archive, "application/zip", {"packages": "true"})
    assert done.status == 200, done.body
    assert done.data["result"]["id"] == kit_id and done.data["result"]["tools"] == 1
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_packages_that_are_gone_come_back_as_they_were(
    house: Server, index: PackageIndex, ann: Person, name: Callable[[str], str]
) -> None:
    kit_id = name("kit")
    assert ann.run("toolset import --packages", polite(kit_id, "greeting==1.0"), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    shutil.rmtree(house.data_dir / "packages")
    assert ann.json(f"run {kit_id}:greet name=Ann")["text"] == "Good day, Ann."
    house.kill()
    house.start()
    shutil.rmtree(house.data_dir / "packages")
    offer_greeting(index, end="!")
    try:
        refused = ann.run(f"run {kit_id}:greet name=Ann")
        assert refused.status == 1 and "Hash mismatch" in refused.out, refused
        assert list_packages(house) == []
    finally:
        offer_greeting(index)
    assert ann.json(f"run {kit_id}:greet name=Ann")["text"] == "Good day, Ann."
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_source_is_never_built_and_the_version_before_stays(
    house: Server, index: PackageIndex, ann: Person, name: Callable[[str], str], tmp_path: Path
) -> None:
    kit_id = name("kit")
    marker = tmp_path / "built"
    index.files["homemade-1.0.tar.gz"] = make_source("homemade", "1.0", str(marker))
    assert ann.run("toolset import --packages", polite(kit_id, "greeting==1.0"), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    for pin in ("homemade==1.0", "greeting==9.9", "nothing-here==1.0"):
        refused = ann.run("toolset import --packages", polite(kit_id, pin, version="2"), "-T")
        assert refused.status == 2 and "\nrequirements: " in refused.err, refused
        assert pin.partition("==")[0] in refused.err
    assert not marker.exists()
    assert ann.json(f"toolset show {kit_id}")["toolset"]["version"] == "1"
    assert ann.json(f"run {kit_id}:greet name=Ann")["text"] == "Good day, Ann."
    ann.does(f"toolset uninstall {kit_id} --yes")


def test_package_runs_nothing_before_a_tool_is_called(
    house: Server, index: PackageIndex, ann: Person, name: Callable[[str], str]
) -> None:
    """Modules that the standard library looks for are in it."""
    kit_id = name("kit")
    spy = "open('/ws/spare.log', 'a').write('was here')\n"
    modules = {f"{one}.py": spy for one in ("org", "nt", "usercustomize", "sitecustomize")}
    index.add_wheel("spying", "1.0", {"greeting.py": "def greet(name): return name\n", **modules})
    assert ann.run("toolset import --packages", polite(kit_id, "spying==1.0"), "-T").status == 0
    ann.does(f"equip room {kit_id}:*")
    for _ in range(2):
        assert ann.json(f"run {kit_id}:greet name=Ann")["text"] == "Ann"
    assert ann.run("shell sleep 1; ls", b"", "-T").status == 0
    assert ann.json("files")["count"] == 0
    ann.does(f"toolset uninstall {kit_id} --yes")
