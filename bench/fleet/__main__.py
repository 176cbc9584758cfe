"""Measures a fleet: hundreds of ojs-init at one development server.

    make fleet                                        # everything, 300 workers; keeps the run and renews docs/benchmarks.md
    make fleet ARGS='--only start,stop'               # whole rows; kept, and the page shows them
    make fleet ARGS='--workers 50 --only idle'        # another size; only shown, unless --keep
    make fleet ARGS='--only rates --init /path/old'   # another binary; only shown, unless --keep

The fleet does not push others aside as `make bench` does, because it is busy for minutes. A row says how many processors
were busy.
"""

import argparse
import sys
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import bench  # noqa: E402
from fleet import picture, steady, troubles  # noqa: E402
from part import Part, Wishes  # noqa: E402

# The size that the page shows.
WORKERS = 300

PARTS: Dict[str, Part] = {
    "idle": steady.idle,
    "rates": steady.rates,
    "alone": steady.alone,
    "sizes": steady.sizes,
    "start": troubles.start,
    "stop": troubles.stop,
    "away": troubles.away,
    "slow": steady.slow,
    "shed": troubles.shed,
}


def arguments() -> argparse.Namespace:
    parser = bench.parser_of("fleet", "Measures a fleet of ojs-init.", PARTS)
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"how many there are ({WORKERS}); other runs are not kept")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    bench.allow_many_files()
    is_kept = bool(given.keep) or (given.workers == WORKERS and bench.is_ours(given.init))
    run = {**bench.facts(given.init, given.revision), "parts": {}}
    parts = {f"fleet-{name}": PARTS[name] for name in given.only}
    status = bench.carry_out(
        run, parts, bench.programs_of(given.init, given.built), Wishes(rounds=1, workers=given.workers), is_kept, given.keep
    )
    if is_kept and "fleet-sizes" in run["parts"]:
        picture.write(ROOT, run["parts"]["fleet-sizes"]["rows"])
    return status


if __name__ == "__main__":
    sys.exit(main())
