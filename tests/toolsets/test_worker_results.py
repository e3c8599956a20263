"""Results of calls, made of what workers answer."""

from __future__ import annotations

from sshwarma.toolsets.worker_process import WorkerAnswer
from sshwarma.toolsets.worker_results import read_result
from sshwarma.workspaces.runs import RunFiles


def test_call_whose_changes_were_not_kept_is_an_error() -> None:
    answer = WorkerAnswer(
        {"content": [{"type": "text", "text": "wrote all"}], "_meta": {"value": "wrote all"}},
        ("printed",),
    )
    kept = read_result(answer, RunFiles())
    assert not kept.is_error and kept.text == "wrote all"
    lost = read_result(answer, RunFiles(problem="it has too many files (limit 10,000)"))
    assert lost.is_error and lost.printed_lines == ("printed",)
    assert lost.text == (
        "wrote all\nIts changes of files were not kept: it has too many files (limit 10,000)."
    )
