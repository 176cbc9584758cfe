"""Measures ojs-init: what a job costs, how long it is on its way, what idling and memory cost, and what it is as an init.

    make bench                                      # everything, about a quarter of an hour; keeps the run and renews docs/benchmarks.md
    make bench ARGS='--only cpu --jobs 1,10'        # a part of it; only shown
    make bench ARGS='--only idle,end'               # whole parts; kept, and the page shows them
    make bench ARGS='--only cpu --init /path/old'   # another binary; only shown, unless --keep

Figures of different runs differ by what else the machine does. What is compared is measured in turns within one run, and
what counts are the ratios.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, List, Optional

sys.path.insert(0, str(Path(__file__).resolve().parent))
import clients  # noqa: E402
import exec_mode  # noqa: E402
import gateway  # noqa: E402
import inits  # noqa: E402
import latency  # noqa: E402
import recycling  # noqa: E402
import render  # noqa: E402
import resting  # noqa: E402
import throughput  # noqa: E402
from part import Part, Wishes  # noqa: E402
from processes import Failed, Programs  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "bench" / "runs"

PARTS = {
    "cpu": throughput.measure,
    "way": latency.on_the_way,
    "pickup": latency.pick_ups,
    "end": latency.end,
    "idle": resting.idle,
    "memory": resting.memory,
    "gateway": gateway.measure,
    "exec": exec_mode.measure,
    "exec-memory": exec_mode.memory,
    "clients": clients.measure,
    "init": inits.measure,
    "recycling": recycling.measure,
    "leak": recycling.leak,
}


def arguments() -> argparse.Namespace:
    parser = parser_of("bench", "Measures ojs-init.", PARTS)
    parser.add_argument("--jobs", help="only with so many jobs at once, with commas between; such a run is not kept")
    parser.add_argument("--rounds", type=int, default=3, help="how often ours and the bare loop take turns (3)")
    return parser.parse_args()


def parser_of(program: str, description: str, parts: Dict[str, Part]) -> argparse.ArgumentParser:
    """The options that every program of this folder has."""

    def some(text: str) -> List[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in parts]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no part {', '.join(unknown)}: there are {', '.join(parts)}")
        return names

    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--init", required=True, help="the ojs-init that is measured")
    parser.add_argument("--built", required=True, help="the folder of the development server and the bench's programs")
    parser.add_argument("--only", type=some, default=list(parts), help=f"parts, with commas between: {', '.join(parts)}")
    parser.add_argument("--revision", help="what --init was built from, where that is not this working tree")
    parser.add_argument("--keep", help="keep the run in bench/runs under this name, whatever was left out")
    return parser


def main() -> int:
    given = arguments()
    wishes = Wishes(given.rounds, [int(jobs) for jobs in given.jobs.split(",")] if given.jobs else None)
    allow_many_files()
    try:
        # Before what others do on the same machine; whoever may not do that is measured among them.
        os.nice(-10)
    except PermissionError:
        pass
    is_kept = bool(given.keep) or (wishes.jobs is None and given.rounds >= 3 and is_ours(given.init))
    run = {**facts(given.init, given.revision), "rounds": given.rounds, "parts": {}}
    measures = {part: PARTS[part] for part in given.only}
    return carry_out(run, measures, programs_of(given.init, given.built), wishes, is_kept, given.keep)


def allow_many_files() -> None:
    """Ten thousand connections, and both ends of each are ours."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def programs_of(init: str, built: str) -> Programs:
    """Absolute paths, because some programs are started in a folder of their own."""
    names = ("ojs-devserver", "bare-loop", "echo-worker", "tls-front", "bare-relay")
    return Programs(os.path.abspath(init), *(str(Path(built).absolute() / name) for name in names))


def carry_out(
    run: Dict[str, Any], parts: Dict[str, Part], programs: Programs, wishes: Wishes, is_kept: bool, name: Optional[str]
) -> int:
    """Measures these parts and puts them into the run and the page; gives the exit status."""
    failed = []
    for part, measure in parts.items():
        try:
            run["parts"][part] = measured(part, measure, programs, wishes)
        except Failed as error:
            print(f"{part}: {error}", file=sys.stderr)
            failed.append(part)
            continue
        # After each part: what was measured is kept, whatever comes.
        if is_kept:
            keep(run, name)
            render.write(ROOT, run, part)
    return 1 if failed else 0


def measured(part: str, measure: Part, programs: Programs, wishes: Wishes) -> Dict[str, Any]:
    print(f"{part}:", flush=True)
    began = time.monotonic()
    load = os.getloadavg()[0]
    rows = measure(programs, wishes, lambda line: print(f"  {line}", flush=True))
    return {"rows": rows, "seconds": round(time.monotonic() - began), "load_before": round(load, 1)}


def is_ours(init: str) -> bool:
    """Whether it is what `make release` has built."""
    return Path(init).resolve().is_relative_to(ROOT / os.environ.get("CARGO_TARGET_DIR", "target"))


def facts(init: str, revision: Optional[str]) -> Dict[str, Any]:
    """When, what and on which machine; not whose."""
    ask = lambda *words: subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: E731
    models = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "revision": revision or ask("git", "rev-parse", "--short=7", "HEAD"),
        "is_clean": bool(revision) or not ask("git", "status", "--porcelain", "--untracked-files=no", "src", "Cargo.lock"),
        "version": ask(init, "--version").splitlines()[0],
        "binary_bytes": os.path.getsize(init),
        "machine": {
            "processors": os.cpu_count(),
            "model": models[0] if models else platform.machine(),
            "kernel": platform.release().split("-")[0],
            "memory_gib": round(memory / 2**30, 1),
        },
    }


def keep(run: Dict[str, Any], name: Optional[str]) -> None:
    stamp = run["at"][:19].replace(":", "").replace("T", "-")
    path = RUNS / (f"{stamp}-{name}.json" if name else f"{stamp}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
