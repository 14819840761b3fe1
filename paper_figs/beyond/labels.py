"""Names written beside points, where they cover the least."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Box = tuple[float, float, float, float]  # left, bottom, right, top
_OUTSIDE = 20.0  # an overlap with the border counts this much more than one with a point


def label_points(
    axes: "Axes", points: Sequence[tuple[str, float, float, str]], others: Iterable[tuple[float, float]] = (),
    size: float = 6.5,
) -> None:  # fmt: skip
    """Write each (text, x, y, colour) beside its point, greedily where it covers least.

    ``others``: more points not to be covered.  Axes must have their final limits and scales; the size of a text is
    estimated from its length, so that nothing has to be drawn first.
    """
    from matplotlib.transforms import Bbox

    drawing = axes.get_figure(root=True)
    assert drawing is not None
    drawing.draw_without_rendering()  # axes get their places
    to_pixels = axes.transData.transform
    scale = axes.figure.dpi / 72
    frame: Bbox = axes.get_window_extent()
    taken: list[Box] = [_around(to_pixels((x, y)), 4 * scale) for _, x, y, _ in points]
    taken += [_around(to_pixels(point), 2.5 * scale) for point in others]
    for text, x, y, colour in sorted(points, key=lambda point: (-point[2], point[1])):
        at_x, at_y = to_pixels((x, y))
        width, height = 0.56 * size * scale * len(text), 1.15 * size * scale
        places = []
        for order, (across, up) in enumerate(product((1, -1, 0), (0, 1, -1, 2, -2, 3, -3))):
            if across == up == 0:
                continue
            left = at_x + (7 * scale if across > 0 else -7 * scale - width if across < 0 else -width / 2)
            bottom = at_y - height / 2 + up * (0.75 if across else 1.05) * height
            box = left, bottom, left + width, bottom + height
            cost = sum(_overlap(box, other) for other in taken)
            inside = _overlap(box, (frame.x0, frame.y0, frame.x1, frame.y1))
            cost += _OUTSIDE * (width * height - inside) + 0.02 * order * height * height
            places.append((cost, order, box))
        _, _, box = min(places)
        taken.append(box)
        offset = (box[0] - at_x) / scale, ((box[1] + box[3]) / 2 - at_y) / scale
        axes.annotate(text, (x, y), xytext=offset, textcoords="offset points", fontsize=size, color=colour,
                      ha="left", va="center", zorder=5)  # fmt: skip


def _around(at: Iterable[float], half: float) -> Box:
    x, y = at
    return x - half, y - half, x + half, y + half


def _overlap(one: Box, other: Box) -> float:
    """The area that two boxes share."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(0.0, width) * max(0.0, height)
