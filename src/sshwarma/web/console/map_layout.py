"""Places for the rooms of a map: a grid with directions where they point.

The same rooms always get the same places. Names of exits stand where nothing else does; one for
which there is no place is left out, and is in the table alone.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sshwarma.terminal.width import cut_to_width, text_width
from sshwarma.verbs.map import STEPS

CELL_WIDTH: Final = 200
CELL_HEIGHT: Final = 108
ROOM_WIDTH: Final = 128
ROOM_HEIGHT: Final = 46
"""Pixels of a cell of the grid, and of the box of a room in the middle of it."""

MARGIN: Final = 8
MAX_STRETCHED_STEPS: Final = 3
"""Cells that an exit may be long, where the nearer ones are taken."""

ISLAND_COLUMNS: Final = 4
"""Columns, at least, in which rooms stand that no exit leads to."""

LABEL_HEIGHT: Final = 13
LABEL_COLUMN_PIXELS: Final = 6.6
MAX_LABEL_COLUMNS: Final = 14
"""Size of the name of an exit, in pixels and columns."""

BENDS: Final = (0, 46, -46, 92, -92, 150, -150)
"""Pixels by which a way may bend around rooms, the straight one first."""

SAMPLES: Final = 24
"""Points of a way at which it is looked whether it meets a room."""

TIP_PIXELS: Final = 7

Cell: TypeAlias = tuple[int, int]
Point: TypeAlias = tuple[float, float]
Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class PlacedLabel:
    """The name of an exit, and the middle of its place."""

    text: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class DrawnWay:
    """A way between two rooms: its path, the corners of its tips, and its names."""

    path: str
    tips: tuple[str, ...]


@dataclass(slots=True)
class MapLayout:
    """The places of rooms by id, in pixels, and of the ways between them.

    Attributes:
        missing: names of exits for which there was no place.
    """

    width: float
    height: float
    places: dict[str, Point]
    ways: list[DrawnWay] = field(default_factory=list)
    labels: list[PlacedLabel] = field(default_factory=list)
    missing: int = 0


def lay_out(rooms: Sequence[str], exits: Mapping[str, Sequence[tuple[str, str]]]) -> MapLayout:
    """Return places for rooms and ways, in pixels.

    Args:
        rooms: ids, the viewer's first.
        exits: of each room, directions and ids of rooms.
    """
    cells = place_rooms(rooms, exits)
    left = min((x for x, _ in cells.values()), default=0)
    top = min((y for _, y in cells.values()), default=0)
    cells = {room: (x - left, y - top) for room, (x, y) in cells.items()}
    columns = max((x for x, _ in cells.values()), default=0) + 1
    lines = max((y for _, y in cells.values()), default=0) + 1
    layout = MapLayout(
        columns * CELL_WIDTH + 2 * MARGIN,
        lines * CELL_HEIGHT + 2 * MARGIN,
        {room: _find_middle(cell) for room, cell in cells.items()},
    )
    _WayDrawer(layout, cells, exits).draw()
    return layout


def place_rooms(
    rooms: Sequence[str], exits: Mapping[str, Sequence[tuple[str, str]]]
) -> dict[str, Cell]:
    """Return a cell of a grid for each room; no two have the same."""
    known = set(rooms)
    places: dict[str, Cell] = {}
    lonely: list[str] = []
    neighbours = {to for ways in exits.values() for _, to in ways}
    for room in rooms:
        if room in places:
            continue
        if places and not exits.get(room) and room not in neighbours:
            lonely.append(room)
            continue
        group = _place_group(room, exits, known - set(places))
        _add_below(places, group)
    columns = max([ISLAND_COLUMNS, *(x + 1 for x, _ in places.values())])
    _add_below(places, {room: (at % columns, at // columns) for at, room in enumerate(lonely)})
    return places


def _place_group(
    first: str, exits: Mapping[str, Sequence[tuple[str, str]]], known: set[str]
) -> dict[str, Cell]:
    """Return places for the rooms that one leads to, around it."""
    places: dict[str, Cell] = {first: (0, 0)}
    taken: set[Cell] = {(0, 0)}
    queue = deque([first])
    while queue:
        room = queue.popleft()
        x, y = places[room]
        # Those with a place of their own first.
        for direction, to in sorted(exits.get(room, ()), key=lambda way: way[0] not in STEPS):
            if to in places or to not in known:
                continue
            dx, dy = STEPS.get(direction, (0, 0))
            line = ((x + dx * far, y + dy * far) for far in range(1, MAX_STRETCHED_STEPS + 1))
            straight = next((cell for cell in line if cell not in taken), None)
            cell = straight if straight and (dx or dy) else _find_free(taken, (x + dx, y + dy))
            places[to] = cell
            taken.add(cell)
            queue.append(to)
    return places


def _find_free(taken: set[Cell], near: Cell) -> Cell:
    """Return the nearest free cell: below and to the sides first."""
    x, y = near
    distance = 0
    while True:
        ring = [
            (x + dx, y + dy)
            for dy in range(-distance, distance + 1)
            for dx in range(-distance, distance + 1)
            if max(abs(dx), abs(dy)) == distance
        ]
        free = [cell for cell in ring if cell not in taken]
        if free:
            return min(free, key=lambda one: (abs(one[0] - x) + abs(one[1] - y), -one[1], one[0]))
        distance += 1


def _add_below(places: dict[str, Cell], group: Mapping[str, Cell]) -> None:
    """Add places of more rooms below the others."""
    if not group:
        return
    left = min((x for x, _ in places.values()), default=min(x for x, _ in group.values()))
    bottom = max((y for _, y in places.values()), default=-1)
    first_x = min(x for x, _ in group.values())
    first_y = min(y for _, y in group.values())
    for room, (x, y) in group.items():
        places[room] = (x - first_x + left, y - first_y + bottom + 1)


def _find_middle(cell: Cell) -> Point:
    return MARGIN + (cell[0] + 0.5) * CELL_WIDTH, MARGIN + (cell[1] + 0.5) * CELL_HEIGHT


class _WayDrawer:
    """Draws ways and their names where nothing else is."""

    def __init__(
        self,
        layout: MapLayout,
        cells: Mapping[str, Cell],
        exits: Mapping[str, Sequence[tuple[str, str]]],
    ) -> None:
        self._layout = layout
        self._rooms = {cell: room for room, cell in cells.items()}
        self._exits = exits
        self._labels: dict[Cell, list[Box]] = {}

    def draw(self) -> None:
        """Draw a way for each pair of rooms with an exit, then its names."""
        names: dict[tuple[str, str], list[str]] = {}
        for room, ways in self._exits.items():
            for direction, to in ways:
                if to in self._layout.places and room in self._layout.places and to != room:
                    names.setdefault((room, to), []).append(direction)
        wanted: list[tuple[str, list[Point]]] = []
        for (room, to), directions in names.items():
            back = names.get((to, room))
            if back is not None and (to, room) < (room, to):
                continue  # the way of the other direction has both tips
            points = self._find_way(room, to)
            self._add_way(points, has_back=back is not None)
            wanted.append((", ".join(directions), points))
            if back is not None:
                wanted.append((", ".join(back), points[::-1]))
        for text, points in wanted:
            self._add_label(cut_to_width(text, MAX_LABEL_COLUMNS), points)

    def _find_way(self, room: str, to: str) -> list[Point]:
        """Return the points of a way outside its two rooms, bent around others."""
        best: tuple[int, list[Point]] | None = None
        for bend in BENDS:
            curve = _bend(self._layout.places[room], self._layout.places[to], bend)
            met = {self._find_room(point) for point in curve} - {None, room, to}
            if best is None or len(met) < best[0]:
                best = len(met), curve
            if not met:
                break
        points = best[1] if best else []
        return [point for point in points if self._find_room(point) is None] or points

    def _find_room(self, point: Point) -> str | None:
        """Return the room in whose box a point is."""
        cell = _find_cell(point)
        room = self._rooms.get(cell)
        if room is None:
            return None
        x, y = self._layout.places[room]
        is_in = abs(point[0] - x) <= ROOM_WIDTH / 2 and abs(point[1] - y) <= ROOM_HEIGHT / 2
        return room if is_in else None

    def _add_way(self, points: Sequence[Point], *, has_back: bool) -> None:
        start, *rest = points
        path = f"M{start[0]:.1f} {start[1]:.1f}" + "".join(f"L{x:.1f} {y:.1f}" for x, y in rest)
        tips = [_make_tip(points)] + ([_make_tip(points[::-1])] if has_back else [])
        self._layout.ways.append(DrawnWay(path, tuple(tips)))

    def _add_label(self, text: str, points: Sequence[Point]) -> None:
        """Put a name beside the way, as near to its beginning as there is place."""
        half = (text_width(text) * LABEL_COLUMN_PIXELS + 4) / 2
        for x, y in _list_label_places(points, half):
            box = (x - half, y - LABEL_HEIGHT / 2, x + half, y + LABEL_HEIGHT / 2)
            if box[0] >= 0 and box[2] <= self._layout.width and self._is_free(box):
                for cell in _list_cells(box):
                    self._labels.setdefault(cell, []).append(box)
                self._layout.labels.append(PlacedLabel(text, x, y))
                return
        self._layout.missing += 1

    def _is_free(self, box: Box) -> bool:
        for cell in _list_cells(box):
            if (room := self._rooms.get(cell)) is not None:
                x, y = self._layout.places[room]
                room_box = (
                    x - ROOM_WIDTH / 2, y - ROOM_HEIGHT / 2, x + ROOM_WIDTH / 2,
                    y + ROOM_HEIGHT / 2,
                )  # fmt: skip
                if overlaps(box, room_box):
                    return False
            if any(overlaps(box, other) for other in self._labels.get(cell, ())):
                return False
        return True


def overlaps(one: Box, other: Box) -> bool:
    """Return whether two boxes have a part in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _bend(start: Point, end: Point, bend: float) -> list[Point]:
    """Return points of a curve between two, which bends to a side in its middle."""
    length = math.dist(start, end) or 1.0
    side = (-(end[1] - start[1]) / length, (end[0] - start[0]) / length)
    middle = (
        (start[0] + end[0]) / 2 + 2 * bend * side[0],
        (start[1] + end[1]) / 2 + 2 * bend * side[1],
    )
    count = max(SAMPLES, int(length / 6))
    points = []
    for number in range(count + 1):
        t = number / count
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t**2
        points.append(
            (a * start[0] + b * middle[0] + c * end[0], a * start[1] + b * middle[1] + c * end[1])
        )
    return points


def _make_tip(points: Sequence[Point]) -> str:
    """Return the corners of the tip at the end of a way."""
    x, y = points[-1]
    before = points[-min(len(points), 3)]
    angle = math.atan2(y - before[1], x - before[0])
    corners = [
        (x - TIP_PIXELS * math.cos(angle + turn), y - TIP_PIXELS * math.sin(angle + turn))
        for turn in (-0.45, 0.45)
    ]
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in [(x, y), *corners])


def _list_label_places(points: Sequence[Point], half: float) -> Iterator[Point]:
    """Yield places beside a way, from its beginning on, on both sides of it."""
    count = len(points)
    for share in (0.25, 0.35, 0.15, 0.45, 0.05, 0.6, 0.75, 0.9):
        x, y = points[min(count - 1, int(share * count))]
        is_steep = abs(points[-1][1] - points[0][1]) > abs(points[-1][0] - points[0][0])
        for offset in (1, -1, 2.2, -2.2, 3.4, -3.4):
            yield (
                (x + offset * (half + 4), y)
                if is_steep
                else (x, y - offset * (LABEL_HEIGHT / 2 + 3))
            )


def _find_cell(point: Point) -> Cell:
    return int((point[0] - MARGIN) // CELL_WIDTH), int((point[1] - MARGIN) // CELL_HEIGHT)


def _list_cells(box: Box) -> Iterable[Cell]:
    (left, top), (right, bottom) = _find_cell(box[:2]), _find_cell(box[2:])
    return [(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)]
