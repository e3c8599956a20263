"""End of an answer that repeats itself or grows beyond its limit."""

from __future__ import annotations

from sshwarma.models.backend import ReasoningDelta, TextDelta
from sshwarma.models.live_answer import LiveAnswer
from sshwarma.models.profiles import find_max_characters
from sshwarma.models.repetition import RepetitionDetector, trim_repetition
from sshwarma.world.end_reason import EndReason


def describe_cut(output_tokens: int | None) -> EndReason:
    """Return why an answer was cut, with its limit if it has one."""
    limit = f" ({output_tokens} tokens, its max_output_tokens)" if output_tokens else ""
    text = "reached the maximum length of an answer"
    return EndReason(f"{text}{limit}; ask it to continue", text)


class AnswerGuard:
    """Writes a step into the live answer and says when the step must end."""

    def __init__(self, live_answer: LiveAnswer, output_tokens: int | None) -> None:
        self._live_answer = live_answer
        self._output_tokens = output_tokens
        self._left = find_max_characters(output_tokens)
        self._text = RepetitionDetector()
        self._reasoning = RepetitionDetector()

    def must_end(self, part: TextDelta | ReasoningDelta) -> bool:
        """Add a part to the answer; return whether the answer must end here."""
        live_answer, delta = self._live_answer, part.delta
        self._left -= len(delta)
        if isinstance(part, ReasoningDelta):
            live_answer.append_reasoning(delta)
            repeats = self._reasoning.feed(delta)
        else:
            live_answer.write(delta)
            repeats = self._text.feed(delta)
            if repeats:
                live_answer.text = trim_repetition(live_answer.text)
        if repeats:
            what = "reasoning" if isinstance(part, ReasoningDelta) else "answer"
            live_answer.cut_reason = EndReason(f"was stopped: its {what} repeated itself")
        elif self._left < 0:
            live_answer.cut_reason = describe_cut(self._output_tokens)
        return live_answer.cut_reason is not None
