"""Names written beside points, where they cover the least."""

from collections.abc import Iterable, Sequence
from itertools import pairwise, product
from math import cos, radians, sin

from core.records import Options
from paper_figs.light import Axes, Floats

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, right, top
_OUTSIDE, _COVERED = 20.0, 5.0  # what pixels outside the panel, and covered ones, count beside a longer way
_REACHES = (8.0, 17.0, 28.0, 40.0)  # points: how far a name may be; beyond the first it has a line to its point
_SIZE = 6.5  # points, of the names
_STEPS = 16  # of a line, between two of its points


def label_points(
    axes: Axes, points: Sequence[tuple[str, float, float, str]], lines: Iterable[Sequence[Point]] = ()
) -> None:
    """Write each (text, x, y, colour) beside its point, greedily where it covers least.

    ``lines``: not to be covered either.  Axes must have their final limits and scales; the size of a text is
    estimated from its length, so that nothing has to be drawn first.
    """
    drawing = axes.get_figure(root=True)
    assert drawing is not None
    drawing.draw_without_rendering()  # axes get their places
    to_pixels, scale = axes.transData.transform, axes.figure.dpi / 72
    frame = axes.get_window_extent()
    border = (frame.x0 + 4 * scale, frame.y0, frame.x1, frame.y1)
    taken = [_around(to_pixels((x, y)), 5 * scale) for _, x, y, _ in points]
    for start, end in (pair for line in lines for pair in pairwise([to_pixels(point) for point in line])):
        shares = (step / _STEPS for step in range(_STEPS + 1))
        taken += [_around(start + share * (end - start), 1.5 * scale) for share in shares]
    for text, x, y, colour in sorted(points, key=lambda point: (-point[2], point[1])):
        at_x, at_y = to_pixels((x, y))
        extent = 0.6 * _SIZE * scale * len(text), 1.2 * _SIZE * scale
        places: list[tuple[float, int, Box]] = []  # cost, ring, box
        for ring, angle in product(range(len(_REACHES)), range(0, 360, 30)):
            box = _box(at_x, at_y, _REACHES[ring] * scale, angle, extent)
            covered = sum(_overlap(box, other) for other in taken)
            outside = extent[0] * extent[1] - _overlap(box, border)
            places.append((_COVERED * covered + _OUTSIDE * outside + ring * extent[1] ** 2, ring, box))
        _, ring, box = min(places)
        taken.append(box)
        offset = (box[0] - at_x) / scale, ((box[1] + box[3]) / 2 - at_y) / scale
        leader = {"arrowstyle": "-", "color": colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        look: Options = {"fontsize": _SIZE, "color": colour, "va": "center", "zorder": 5}
        axes.annotate(text, (x, y), offset, "data", "offset points", leader if ring else None, **look)


def _box(x: float, y: float, reach: float, angle: int, extent: Point) -> Box:
    """Of a text that is ``reach`` away in the direction ``angle``, in degrees: beside, above or below its point."""
    across, up = cos(radians(angle)), sin(radians(angle))
    left, bottom = x + reach * across - extent[0] * (1 - across) / 2, y + reach * up - extent[1] / 2
    return left, bottom, left + extent[0], bottom + extent[1]


def _around(at: Floats, half: float) -> Box:
    return at[0] - half, at[1] - half, at[0] + half, at[1] + half


def _overlap(one: Box, other: Box) -> float:
    """The area that two boxes share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)
