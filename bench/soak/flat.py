"""Whether a figure stays flat: a line of least squares through it, with the error of its slope."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

# A slope counts as growth if it is above its bound by more than so many standard errors.
ERRORS = 2.0

# Share of the time that is left out of the slope, and its longest, in seconds: caches and buffers
# find their size in it.
WARM_UP_SHARE, WARM_UP_MOST = 0.2, 300.0

# Fewest points for a slope.
FEWEST = 3

SECONDS_OF_AN_HOUR = 3600.0

# Greatest slope of each figure at rest, an hour.
BOUNDS = {
    "private_kib": 1024.0,
    "resident_kib": 1024.0,
    "descriptors": 1.0,
    "threads": 1.0,
    "children": 1.0,
    "zombies": 1.0,
    "timers": 1.0,
    "jobs": 1.0,
    "connections": 1.0,
    "requests": 1.0,
    "streams": 1.0,
}

# Growth over a whole run that is no more than pages and counts that come and go.
NOISE = {"private_kib": 512.0, "resident_kib": 1024.0, "jobs": 0.0}
NOISE_ELSE = 4.0

# The seconds since the start, and the figure.
Point = Tuple[float, float]


@dataclass(frozen=True)
class Slope:
    """How much a figure grows in a unit of the x-axis, and the standard error of that."""

    value: float
    error: float

    def is_above(self, bound: float) -> bool:
        return self.value - ERRORS * self.error > bound


def slope(points: Sequence[Point]) -> Slope:
    """The least squares' slope of these points."""
    count = len(points)
    middle_x = sum(x for x, _ in points) / count
    middle_y = sum(y for _, y in points) / count
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    if count < FEWEST or spread == 0:
        raise ValueError(f"{count} points have no slope with an error")
    value = sum((x - middle_x) * (y - middle_y) for x, y in points) / spread
    left = sum((y - middle_y - value * (x - middle_x)) ** 2 for x, y in points)
    return Slope(value, math.sqrt(left / (count - 2) / spread))


def judged(name: str, points: Sequence[Point], whole: float, noise: float = 1.0) -> Dict[str, Any]:
    """The slope of a figure an hour, after the warm-up, and whether that is flat; with so many times the usual noise."""
    begin = min(WARM_UP_SHARE * whole, WARM_UP_MOST)
    counted = [point for point in points if point[0] >= begin]
    if len(counted) < FEWEST:
        counted = list(points)
    found, bound = slope([(seconds / SECONDS_OF_AN_HOUR, figure) for seconds, figure in counted]), BOUNDS[name]
    growth = found.value * (counted[-1][0] - counted[0][0]) / SECONDS_OF_AN_HOUR
    is_flat = not (found.is_above(bound) and growth > noise * NOISE.get(name, NOISE_ELSE))
    return {"slope": round(found.value, 2), "error": round(found.error, 2), "bound": bound, "is_flat": is_flat}


def at(points: Sequence[Point], seconds: float) -> float:
    """The figure at the point that is next to that moment."""
    return min(points, key=lambda point: abs(point[0] - seconds))[1]


def check() -> List[str]:
    """What is wrong with the judgement itself: a leak has to be seen, and noise has to be none."""
    noise, minutes = [0, 3, 1, 2, 4, 0], range(30)
    cases = {
        "a leak of 2 MiB an hour": ("private_kib", [34 * minute + 4 * noise[minute % 6] for minute in minutes], False),
        "noise of 16 KiB": ("private_kib", [4 * noise[minute % 6] for minute in minutes], True),
        "a descriptor lost each five minutes": ("descriptors", [10 + minute // 5 for minute in minutes], False),
        "a job that stays": ("jobs", [minute // 10 for minute in minutes], False),
        "a constant": ("threads", [7 for _ in minutes], True),
        "a figure that falls": ("timers", [100 - minute for minute in minutes], True),
    }
    wrong = []
    for what, (name, values, is_flat) in cases.items():
        points = [(60.0 * minute, float(value)) for minute, value in enumerate(values)]
        if judged(name, points, 60.0 * len(points))["is_flat"] != is_flat:
            wrong.append(f"{what} is judged as {'growth' if is_flat else 'flat'}")
    return wrong
