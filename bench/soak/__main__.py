"""A soak of ojs-init: every mode for long, while backend, workers and the reader of the log fail. Figures stay flat.

    make soak MINUTES=30                        # keeps the run and renews docs/endurance.md
    make soak MINUTES=30 ARGS='--seed 7'        # another schedule of faults
    make soak ARGS='--only orphans'             # a million orphans; also jobs, exhaust, trials
    make soak ARGS='--only trials --trials 2000'

Needs root: namespaces of processes, limits of other processes, a small tmpfs.
"""

import argparse
import sys
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import bench  # noqa: E402
from part import Part  # noqa: E402
from soak import exhaust, million, modes, orphans, trials  # noqa: E402
from soak.modes import SoakWishes  # noqa: E402

PARTS: Dict[str, Part] = {
    "modes": modes.soak,
    "orphans": orphans.measure,
    "jobs": million.measure,
    "exhaust": exhaust.measure,
    "trials": trials.measure,
}

# Minutes of a soak whose figures the page shows.
KEPT_MINUTES = 10.0

# The smoke: short rounds, few of them, and lost answers to FETCHes that are made up for soon.
OF_SMOKE = {"minutes": 0.1, "instances": 1, "busy_s": 3.0, "round_s": 3.0, "settle_s": 2.0, "samples": 3}
SMOKE = {**OF_SMOKE, "noise": 3.0, "visibility": "4s", "remembered": 0}


def arguments() -> argparse.Namespace:
    parser = bench.parser_of("soak", "Lets ojs-init work for long while everything around it fails.", PARTS)
    parser.set_defaults(only=["modes"])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long the modes are watched (30)")
    parser.add_argument("--instances", type=int, default=2, help="ojs-init in each mode (2)")
    parser.add_argument("--seed", type=int, default=1, help="of the schedule of faults and jobs (1)")
    parser.add_argument("--trials", type=int, default=1_000, help="trials of each mode (1000)")
    parser.add_argument("--smoke", action="store_true", help="half a minute of the modes, not kept: for make test")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    bench.allow_many_files()
    wanted = {"minutes": given.minutes, "instances": given.instances, "seed": given.seed, "trials": given.trials}
    wishes = SoakWishes(**{**wanted, **(SMOKE if given.smoke else {})})
    is_long = "modes" not in given.only or given.minutes >= KEPT_MINUTES
    is_kept = not given.smoke and (bool(given.keep) or (is_long and bench.is_ours(given.init)))
    run = {**bench.facts(given.init, given.revision), "parts": {}}
    parts = {f"soak-{name}": PARTS[name] for name in given.only}
    status = bench.carry_out(run, parts, bench.programs_of(given.init, given.built), wishes, is_kept, given.keep)
    # A run that has failed is kept all the same: its figures say what grows.
    found = modes.problems(run["parts"]["soak-modes"]["rows"]) if "soak-modes" in run["parts"] else []
    for problem in found:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if found else status


if __name__ == "__main__":
    sys.exit(main())
