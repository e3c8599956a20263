"""What Tab offers for the answers to calls that wait, and odd answers."""

from __future__ import annotations

import asyncio

import pytest

from sshwarma.services import services_of
from sshwarma.tools.approvals import WaitingApproval
from sshwarma.verbs.completion import complete
from support.people import Someone, refused


def wait_for_answer(asked_by: Someone, number: int, room_id: str = "") -> None:
    waiting = WaitingApproval(
        number, room_id or asked_by.room_id, "kit:ask", {}, asked_by.id, asked_by.id, 0,
        asyncio.get_running_loop().create_future(),
    )  # fmt: skip
    services_of(asked_by.caller).tools.approvals._waiting[number] = waiting


@pytest.mark.parametrize("typed", ["/allow ", "/deny ", "/deny --number "])
async def test_numbers_of_open_questions_are_completed(
    alice: Someone, bob: Someone, typed: str
) -> None:
    assert "7" not in [one.text for one in await complete(alice.caller, typed, len(typed))]
    wait_for_answer(bob, 7)
    wait_for_answer(bob, 8, "another room")
    found = await complete(alice.caller, typed, len(typed))
    numbers = [(one.label, one.note) for one in found if one.text[0].isdigit()]
    assert numbers == [("7", "kit:ask for bob")]


async def test_words_of_a_reason_are_not_completed(alice: Someone, bob: Someone) -> None:
    wait_for_answer(bob, 7)
    typed = "/deny 7 "
    assert not [one for one in await complete(alice.caller, typed, len(typed)) if one.text == "7"]


async def test_number_of_thousands_of_digits_is_a_reason(alice: Someone) -> None:
    assert "No call waits here" in (await refused(alice, f"/deny {'9' * 5000}")).message
