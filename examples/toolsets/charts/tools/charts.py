"""Charts: a terminal shows the printed plot, a page draws the result."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from sshwarma_toolset import tool
from tools.plot import draw_bars, draw_line

Values = Annotated[list[float], Field(min_length=1, max_length=1000)]


@tool(name="Bar Chart", description="Draw one bar for each value")
def bar_chart(title: str, labels: list[str], values: Values) -> dict:
    """Draw one bar for each value.

    Args:
        title: what the chart shows.
        labels: the name of each bar.
        values: the length of each bar; not negative.
    """
    if len(labels) != len(values):
        raise ValueError(f"there are {len(labels)} labels and {len(values)} values")
    if min(values) < 0:
        raise ValueError("a bar cannot be negative")
    print(draw_bars(title, labels, values))
    return {"kind": "bars", "title": title, "labels": labels, "values": values}


@tool(name="Line Chart", description="Draw values as a line, from left to right")
def line_chart(title: str, values: Values) -> dict:
    """Draw values as a line, from left to right.

    Args:
        title: what the chart shows.
        values: from left to right.
    """
    print(draw_line(title, values))
    return {"kind": "line", "title": title, "labels": [], "values": values}
