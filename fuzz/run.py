#!/usr/bin/env python3
"""Builds the fuzz targets, lets each of them search for some minutes, and notes what came of it in fuzz/runs.

`make fuzz MINUTES=10` runs it; fuzz/README.md tells more.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

FUZZ = pathlib.Path(__file__).resolve().parent
ROOT = FUZZ.parent
# What was found, and the inputs that libFuzzer goes on with. The corpus of the repository has a few of them.
PLACE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "fuzz"
HOST = "x86_64-unknown-linux-gnu"
JSON_TARGETS = {"bodies", "control", "envelopes", "json", "replies", "worker_frames", "event_streams", "job_lines"}
HTTP_TARGETS = {"answers", "requests", "smuggling"}
# An input that takes longer, in seconds, or more memory, in MiB, is a finding.
SLOWEST = 10
MOST_MEMORY = 2048
# Longest input, in bytes. A life is as long as its events.
LONGEST = {"lifecycle": 2000}
LONGEST_OTHER = 4096
# Most files that libFuzzer adds to the corpus of a target.
MOST_FILES = 24


def options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="all without one")
    parser.add_argument("--minutes", type=float, default=10, help="of each target")
    parser.add_argument("--sanitizer", default="address", help="address, thread (with a nightly standard library) or none")
    parser.add_argument("--minimise", action="store_true", help="search nothing, and write the corpus anew")
    return parser.parse_args()


def build(sanitizer, targets):
    # The options that libFuzzer needs are not in a stable compiler; with this variable they are.
    environment = dict(os.environ, RUSTC_BOOTSTRAP="1", CARGO_TARGET_DIR=str(PLACE / "build"))
    # Each binary costs a link.
    for names in [[name] for name in targets] or [[]]:
        subprocess.run(["cargo", "fuzz", "build", "--sanitizer", sanitizer, *names], cwd=ROOT, env=environment, check=True)
    return PLACE / "build" / HOST / "release"


def arguments(target):
    known = [f"-max_len={LONGEST.get(target, LONGEST_OTHER)}", f"-timeout={SLOWEST}", f"-rss_limit_mb={MOST_MEMORY}"]
    for name, targets in (("json", JSON_TARGETS), ("http", HTTP_TARGETS), ("configuration", {"configuration"})):
        if target in targets:
            known.append(f"-dict={FUZZ / 'dictionaries' / name}.txt")
    return known


def search(binary, target, minutes):
    """The result of one target, as it is noted."""
    found, inputs = PLACE / "found" / target, PLACE / "inputs" / target
    for folder in (found, inputs):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    seconds = round(minutes * 60)
    print(f"{target}: {seconds} s", flush=True)
    run = subprocess.run(
        [binary, *arguments(target), f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={found}/",
         inputs, FUZZ / "corpus" / target],
        cwd=PLACE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
    )
    (PLACE / f"{target}.log").write_text(run.stderr)
    states = re.findall(r"cov: (\d+) ft: (\d+) corp: (\d+)/", run.stderr)
    edges, features, kept = (int(number) for number in states[-1]) if states else (0, 0, 0)
    executions = re.findall(r"stat::number_of_executed_units:\s*(\d+)", run.stderr)
    of = re.findall(r"INFO: Loaded \d+ modules\s+\((\d+) inline", run.stderr)
    findings = sorted(set(found.iterdir()) - before)
    result = {
        "target": target,
        "seconds": seconds,
        "executions": int(executions[-1]) if executions else 0,
        "edges_covered": edges,
        "edges_of_binary": int(of[-1]) if of else None,
        "features": features,
        "inputs_kept": kept,
        "findings": [path.name for path in findings],
    }
    print(f"{target}: {result['executions']} executions, {edges} edges, {len(findings)} findings", flush=True)
    if run.returncode != 0:
        print(run.stderr[-3000:], flush=True)
        for path in findings:
            print(f"  again: {binary} {path}", flush=True)
        if not findings:
            sys.exit(f"{target} ended with status {run.returncode} and left no input: {PLACE / target}.log")
    return result


def minimise(binary, target):
    """The corpus of the repository: of all inputs that are known, those few that reach most edges together."""
    corpus, inputs, fresh = FUZZ / "corpus" / target, PLACE / "inputs" / target, PLACE / "fresh" / target
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    inputs.mkdir(parents=True, exist_ok=True)
    # Names that a person gave stay.
    named = [path for path in corpus.iterdir() if not re.fullmatch(r"[0-9a-f]{40}", path.name)]
    for path in named:
        shutil.copy(path, fresh)
    subprocess.run(
        [binary, *arguments(target), "-set_cover_merge=1", "-use_counters=0", fresh, corpus, inputs],
        cwd=PLACE, stderr=subprocess.DEVNULL, check=True,
    )
    # libFuzzer writes the input that adds most edges first.
    added = [path for path in fresh.iterdir() if path.name not in {path.name for path in named}]
    for path in sorted(added, key=lambda path: path.stat().st_mtime_ns)[MOST_FILES:]:
        path.unlink()
    shutil.rmtree(corpus)
    shutil.copytree(fresh, corpus)
    print(f"{target}: {len(list(corpus.iterdir()))} files, {sum(path.stat().st_size for path in corpus.iterdir())} bytes")


def revision():
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "HEAD") + ("-changed" if git("status", "--porcelain", "--untracked-files=no") else "")


def main():
    wanted = options()
    known = sorted(path.stem for path in (FUZZ / "fuzz_targets").glob("*.rs"))
    targets = wanted.targets or known
    for target in targets:
        if target not in known:
            sys.exit(f"there is no target {target}: {', '.join(known)}")
    binaries = build(wanted.sanitizer, wanted.targets)
    if wanted.minimise:
        for target in targets:
            minimise(binaries / target, target)
        return
    now = datetime.datetime.now(datetime.timezone.utc)
    compiler = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    report = {"date": now.isoformat(timespec="seconds"), "commit": revision(), "compiler": compiler,
              "sanitizer": wanted.sanitizer, "results": []}
    path = FUZZ / "runs" / f"{now:%Y-%m-%d-%H%M%S}.json"
    path.parent.mkdir(exist_ok=True)
    # One search keeps one processor busy.
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as searches:
        for ended in concurrent.futures.as_completed(
            [searches.submit(search, binaries / target, target, wanted.minutes) for target in targets]
        ):
            report["results"].append(ended.result())
            # After each target: a run that is ended keeps what it has.
            path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"noted in {path.relative_to(ROOT)}")
    if any(result["findings"] for result in report["results"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
