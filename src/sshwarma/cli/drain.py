"""`sshwarma drain`: end the running server when what runs is finished."""

from __future__ import annotations

import click

from sshwarma.cli.invocation import Invocation, with_invocation
from sshwarma.common.limits import DEFAULT_DRAIN_MINUTES, MAX_DRAIN_MINUTES


@click.command()
@click.option(
    "--minutes",
    type=click.FloatRange(0, MAX_DRAIN_MINUTES),
    default=DEFAULT_DRAIN_MINUTES,
    show_default=True,
    help="Time after which the server ends, whatever still runs.",
)
@click.option("--cancel", is_flag=True, help="Take it back: the server goes on.")
@with_invocation
def drain(invocation: Invocation, minutes: float, cancel: bool) -> int:
    """End the running server when what runs is finished.

    Everyone who is connected reads when. Until then people can go on, answers of models in progress
    are finished, and no model is asked whose answer could be cut. New logins over ssh are refused
    with the time, and /healthz answers 503, so that a balancer sends people elsewhere.

    The server ends earlier when nobody is connected. Its exit status is 75 then, at which a service
    manager that restarts it on failure starts it again.
    """
    if cancel:
        done = invocation.ask_server("drain_cancel", is_change=True)
        lines = ["The server goes on."]
    else:
        done = invocation.ask_server("drain", is_change=True, minutes=minutes)
        agents, answers = done["agents"], done["answers"]
        lines = [
            f"The server restarts at {done['at']}. Sent to {agents}"
            f" {'agent' if agents == 1 else 'agents'}; answers in progress: {answers}."
        ]
    if done["unrecorded"]:
        lines.append(f"The audit has no row of it: {done['unrecorded']}")
    return invocation.show(done, *lines)
