"""Draws docs/pictures/fetches-in-a-fleet.svg: FETCHes for each job over the size of the fleet.

    python3 bench/fleet/picture.py        # draws it again from the two files beside it

The points are those of docs/pictures/fleet-measured.json, which `make fleet` writes, and of fleet-simulated.json, which a
simulation writes. Both have the same form, and a file that is not there has no points:

    {"series": [{"label": "measured: all", "points": [[10, 3.2], [30, 8.1]]}]}
"""

import json
import math
from pathlib import Path
from typing import Any, Dict, List, Tuple

MEASURED, SIMULATED, PICTURE = "fleet-measured.json", "fleet-simulated.json", "fetches-in-a-fleet.svg"

# The picture and the place of the axes, in pixels.
WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 30, 76, 50

# The legend: two labels on a line.
LEGEND_TOP, LEGEND_LINE, LEGEND_WIDTH = 42, 18, 330

# Colours of the curves, in turn.
LOOKS = ("c0", "c1", "c2", "c3")

STYLE = """
.bg{fill:#fff}
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328}
.heading{font-weight:bold}
.grid{stroke:#d0d7de;stroke-width:1}
polyline{fill:none;stroke-width:2}
.simulated{stroke-dasharray:6 4}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#cf222e;fill:#cf222e}.c2{stroke:#1a7f37;fill:#1a7f37}.c3{stroke:#9a6700;fill:#9a6700}
@media (prefers-color-scheme:dark){
.bg{fill:#0d1117}
text{fill:#e6edf3}
.grid{stroke:#30363d}
.c0{stroke:#58a6ff;fill:#58a6ff}.c1{stroke:#ff7b72;fill:#ff7b72}.c2{stroke:#3fb950;fill:#3fb950}.c3{stroke:#d29922;fill:#d29922}
}
polyline.c0,polyline.c1,polyline.c2,polyline.c3{fill:none}
"""

Point = Tuple[float, float]

# The label of a curve, `measured` or `simulated`, and its points: workers and FETCHes for each job.
Series = Tuple[str, str, List[Point]]


def write(root: Path, rows: List[Dict[str, Any]]) -> None:
    """Writes the measured points of these rows, and draws them with the simulated ones."""
    place = root / "docs" / "pictures"
    kinds = (("all", "measured: all FETCHes"), ("woken", "measured: woken by events"))
    series = [
        {"label": label, "points": [[row["workers"], round(row["fetches"][kind] / row["jobs"], 2)] for row in rows]}
        for kind, label in kinds
    ]
    (place / MEASURED).write_text(json.dumps({"series": series}, indent=1) + "\n")
    draw(place)


def draw(place: Path) -> None:
    found: List[Series] = []
    for name, kind in ((MEASURED, "measured"), (SIMULATED, "simulated")):
        path = place / name
        for one in json.loads(path.read_text())["series"] if path.exists() else []:
            # A logarithmic axis has no zero.
            points = [(float(workers), float(fetches)) for workers, fetches in one["points"] if fetches > 0]
            found.append((one["label"], kind, points))
    (place / PICTURE).write_text(svg(found))


def svg(series: List[Series]) -> str:
    """Both axes are logarithmic: the slope shows how FETCHes grow with workers."""
    points = [point for _, _, some in series for point in some]
    across = Axis([workers for workers, _ in points], LEFT, WIDTH - RIGHT)
    up = Axis([fetches for _, fetches in points], HEIGHT - BOTTOM, TOP)
    title = "FETCHes for each job over the number of workers"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}</style>",
        '<rect width="100%" height="100%" class="bg"/>',
        f'<text x="{LEFT}" y="20" class="heading">{title}, 5 jobs a second</text>',
        *grid(across, up),
    ]
    for number, (label, kind, some) in enumerate(series):
        look = LOOKS[number % len(LOOKS)]
        lines += curve(across, up, some, look, kind)
        x, y = LEFT + number % 2 * LEGEND_WIDTH, LEGEND_TOP + number // 2 * LEGEND_LINE
        lines.append(f'<circle cx="{x + 5}" cy="{y - 4}" r="4" class="{look}"/><text x="{x + 16}" y="{y}">{label}</text>')
    return "\n".join([*lines, "</svg>", ""])


class Axis:
    """A logarithmic axis over whole decades, at least one."""

    def __init__(self, values: List[float], begin: int, end: int) -> None:
        self.low = math.floor(math.log10(min(values, default=1.0)))
        self.high = max(math.ceil(math.log10(max(values, default=1.0))), self.low + 1)
        self.begin, self.end = begin, end

    def at(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.begin + (self.end - self.begin) * part

    def powers(self) -> List[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def grid(across: Axis, up: Axis) -> List[str]:
    lines = []
    for value in across.powers():
        x = across.at(value)
        lines.append(f'<line x1="{x:.1f}" y1="{up.begin}" x2="{x:.1f}" y2="{up.end}" class="grid"/>')
        lines.append(f'<text x="{x:.1f}" y="{up.begin + 18}" text-anchor="middle">{value:,.0f}</text>')
    for value in up.powers():
        y = up.at(value)
        lines.append(f'<line x1="{across.begin}" y1="{y:.1f}" x2="{across.end}" y2="{y:.1f}" class="grid"/>')
        lines.append(f'<text x="{across.begin - 8}" y="{y + 4:.1f}" text-anchor="end">{value:,g}</text>')
    middle = (across.begin + across.end) / 2
    return [*lines, f'<text x="{middle}" y="{up.begin + 36}" text-anchor="middle">workers</text>']


def curve(across: Axis, up: Axis, points: List[Point], look: str, kind: str) -> List[str]:
    seen = [(across.at(workers), up.at(fetches), workers, fetches) for workers, fetches in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in seen)
    lines = [f'<polyline points="{path}" class="{look} {kind}"/>']
    for x, y, workers, fetches in seen:
        tip = f"<title>{workers:,.0f} workers: {fetches:g} FETCHes a job</title>"
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{look}">{tip}</circle>')
    return lines


if __name__ == "__main__":
    draw(Path(__file__).resolve().parents[2] / "docs" / "pictures")
