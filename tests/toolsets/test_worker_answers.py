"""Answers of workers of toolsets that take too long to parse."""

from __future__ import annotations

import pytest

from sshwarma.toolsets import worker_process


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"[" + b"1," * 1_900_000 + b"1]", r"too many values \(limit 100000\)"),
        (b"[" + b"9" * 4_200 + b"]", r"a number with too many digits \(limit 400\)"),
    ],
)
def test_answer_that_takes_long_to_parse_is_refused(value: bytes, reason: str) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"x":' + value + b"}}\n"
    with pytest.raises(worker_process.WorkerError, match=f"its result has {reason}"):
        worker_process.read_answer(line)
