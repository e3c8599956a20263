"""Renderers: how the result of a tool is drawn, and which keys each of them has.

A value may have expressions such as `$args.path` (`toolsets/render_plan.py`), but for those that
say how to draw: `artifact`, `language` and `editable` are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sshwarma.settings.addresses import PORT_RULE, is_port
from sshwarma.toolsets.paths import find_bundle_path_problem
from sshwarma.toolsets.render_targets import find_url_problem

RendererName: TypeAlias = Literal["code", "document", "html", "frame"]


def _check_artifact(path: str) -> str:
    path = path.removeprefix("./")
    if problem := find_bundle_path_problem(path):
        raise ValueError(problem)
    if "$" in path:
        raise ValueError("must be the path of a file in the toolset, without expressions")
    return path


def _check_port(port: Any) -> Any:
    if is_port(port) or (isinstance(port, str) and port.startswith("$")):
        return port
    raise ValueError(f"must be {PORT_RULE}, or an expression such as $return.port")


def _check_url(url: str) -> str:
    if "$" not in url and (problem := find_url_problem(url)):
        raise ValueError(problem)
    return url


class _RendererConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _FileOrContent(_RendererConfig):
    """What is shown: a file of the workspace, or a text."""

    file: Annotated[str, Field(min_length=1)] | None = None
    content: str | None = None
    editable: bool = False

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.file is None) == (self.content is None):
            raise ValueError("must have one of file and content")
        return self


class CodeConfig(_FileOrContent):
    """Keys of the renderer `code`; the language "auto" is that of the file."""

    language: Annotated[str, Field(min_length=1, max_length=40)] = "auto"


class DocumentConfig(_FileOrContent):
    """Keys of the renderer `document`: a text in Markdown."""


class HtmlConfig(_RendererConfig):
    """Keys of the renderer `html`: a page of the toolset, and data for it."""

    artifact: Annotated[str, Field(min_length=1), AfterValidator(_check_artifact)]
    data: Any = "$return"


class FrameConfig(_RendererConfig):
    """Keys of the renderer `frame`: the address of a page, or a port of this machine."""

    url: Annotated[str, Field(min_length=1), AfterValidator(_check_url)] | None = None
    port: Annotated[Any, AfterValidator(_check_port)] = None

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.url is None) == (self.port is None):
            raise ValueError("must have one of url and port")
        return self


RENDERERS: Final[dict[RendererName, type[_RendererConfig]]] = {
    "code": CodeConfig,
    "document": DocumentConfig,
    "html": HtmlConfig,
    "frame": FrameConfig,
}

FILE_RENDERERS: Final = ("code", "document")
"""Renderers that show a text, which may be that of a file of the room."""


def check_renderer_config(renderer: RendererName, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that were given, checked; an artifact without `./` before it.

    Raises:
        ValidationError: of pydantic, naming the key.
    """
    checked = RENDERERS[renderer].model_validate(dict(config)).model_dump()
    return {key: checked[key] for key in config}
