#!/usr/bin/env python3
"""Runs commands of the Makefile, shows their output, and keeps their figures in target/evidence.

    record.py TARGET -- COMMAND [ARG]... [--beside COMMAND [ARG]...]... [--again GROUP COMMAND [ARG]...]...

The commands run side by side. What the others print is shown once the first has ended. Tests that failed are given to the
command behind --again, which runs each once more, alone; it takes the arguments of `cargo test`. Suites behind a line
`suite: GROUP` have a command of their own; "" is for those in no group.

At the end it prints each suite with its tests and seconds, what failed, and what passed the second time. The last line counts
the tests of all suites, in the words of `cargo test`. The exit status is the highest of the commands. `make evidence` renders
docs/evidence.md from the files. A run with ARGS is a part and leaves no file.
"""

import functools
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "evidence"

# Variables of make that change what a target does, and are a part of its command.
VARIABLES = ("COUNT", "MINUTES", "ARGS")

# Files that `make evidence` itself writes, and the runs that it reads.
NO_SOURCES = [":!tests/runs", ":!bench/runs", ":!bench/trials.json", ":!fuzz/runs", ":!docs/evidence*.md"]

# Most tests that are run a second time. A machine that stands still for seconds makes all late that run at that time: 16 of
# tests/containers. More are a mistake.
MOST_AGAIN = 16

# What is left in the pipe once the command has ended, in seconds. A process that outlives it may keep the pipe open.
LAST_WORDS = 5

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A line of the Makefile: what follows is another suite, or the programs of `cargo test` with another binary.
SUITE = re.compile(r"^suite: (.+)$")
PROGRAM = re.compile(r"^ +Running (unittests )?.+ \(.*?([^/]+)-[0-9a-f]{16}\)$")
DOC_TESTS = re.compile(r"^ +Doc-tests (\S+)$")
RESULT = re.compile(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
TRIALS = re.compile(r"^(\d+) trials, (\d+) with a broken promise$")
# `figure: NAME: 12 states, 7 exits`, also behind the name of a test.
FIGURE = re.compile(r"figure: (.+?): (\d.*)$")
# Behind it cargo lists what its other lines have named.
TARGETS_FAILED = re.compile(r"^error: \d+ targets? failed:$")
COUNT = re.compile(r"(\d+) ([a-z][a-z ]*[a-z])")
PASSED = re.compile(r"^test (\S+) +\.\.\. ok$")
FAILED = re.compile(r"^test (\S+) +\.\.\. FAILED$")
# A recipe that failed, other than by a test (cargo's 101).
NO_TEST_FAILED = re.compile(r"^make(?:\[\d+\])?: \*\*\* (?!.*\] Error 101$)")
# What cargo says of a program that failed: the arguments that run it alone, and in them its package and its name.
TO_RERUN = re.compile(r"^error: test failed, to rerun pass `(-p (\S+) --(?:lib|test (\S+)))`$")
# Tests of rows of docs/requirements.md: `l_08_nothing_leads_back`, and those of tests/sdk, which are the row alone.
ROW = re.compile(r"(?:^|::)(?:gs_r?\d{3}|w_\d|[a-z]_\d\db?)(?:_\w+)?$")
SDK_ROW = re.compile(r"^(GS-R?\d{3}) (.+?) +((?:(?:\d+/\d+|-) *)+)$")
INIT = re.compile(r"^(\S+) +(\d+) pass +(\d+) FAIL +(\d+) n/a$")
BROKEN_BUILD = re.compile(r"^(\w+): (caught|NOT CAUGHT as it must be): ")


class Run:
    """The figures of a run, line by line."""

    def __init__(self, wanted):
        # Names of tests that tests/modes.txt refers to.
        self.wanted = wanted
        self.suites, self.figures, self.held = {}, {}, set()
        self.sdks, self.sdk_rows, self.inits, self.broken_builds = [], {}, {}, {}
        self.errors = []
        # Tests that failed by suite, and the arguments of `cargo test` that run such a suite.
        self.failures, self.reruns = {}, {}
        self.group, self.suite, self.began, self.last = "", None, time.monotonic(), ""

    def begin(self, suite):
        self.end()
        self.suite, self.began = suite, time.monotonic()

    def end(self):
        if self.suite is not None:
            self.row()["seconds"] += time.monotonic() - self.began
        self.suite = None

    def row(self):
        return self.suites.setdefault(self.suite, {"passed": 0, "failed": 0, "ignored": 0, "seconds": 0.0})

    def take(self, line):
        line = COLOUR.sub("", line)
        if found := SUITE.match(line):
            self.group = found[1]
            self.begin(self.group)
        elif found := PROGRAM.match(line):
            name = found[2].replace("-", "_")
            self.begin_program(f"unit tests of {name}" if found[1] else name)
        elif found := DOC_TESTS.match(line):
            self.begin_program(f"doc tests of {found[1]}")
        elif found := RESULT.search(line):
            self.count(*(int(number) for number in found.groups()))
        elif found := TRIALS.match(line):
            trials, broken = int(found[1]), int(found[2])
            self.count(trials - broken, broken, 0)
        elif found := FIGURE.search(line):
            self.figures[found[1]] = {unit: int(number) for number, unit in COUNT.findall(found[2])}
        elif found := PASSED.match(line):
            self.keep(self.suite, found[1])
        elif found := FAILED.match(line):
            self.failures.setdefault(self.suite, []).append(found[1])
        elif found := SDK_ROW.match(line):
            self.sdk_rows[found[1]] = {"says": found[2], "cells": found[3].split()}
        elif line.startswith(" " * 50) and not self.sdk_rows:
            self.sdks = line.split()
        elif found := INIT.match(line):
            self.inits[found[1]] = dict(zip(("pass", "fail", "not applicable"), (int(number) for number in found.groups()[1:])))
        elif found := BROKEN_BUILD.match(line):
            self.broken_builds[found[1]] = found[2] == "caught"
        elif line.startswith("error: ") and not TARGETS_FAILED.match(line):
            self.errors.append(line)
            if found := TO_RERUN.match(line):
                suite = self.in_group(found[3] or f"unit tests of {found[2].replace('-', '_')}")
                self.reruns[suite] = self.group, found[1].split()

        elif NO_TEST_FAILED.match(line):
            self.errors.append(line)

    def begin_program(self, name):
        # A group of programs has no time of its own.
        if self.suite == self.group:
            self.suite = None
        self.begin(self.in_group(name))

    def in_group(self, name):
        return f"{self.group}: {name}" if self.group else name

    def count(self, passed, failed, ignored):
        if self.suite is not None:
            row = self.row()
            for name, number in (("passed", passed), ("failed", failed), ("ignored", ignored)):
                row[name] += number

    def keep(self, suite, test):
        if ROW.search(test) or test.rsplit("::", 1)[-1] in self.wanted:
            self.held.add(f"{suite} {test}")

    def join(self, other):
        """This run, with what another has that ran beside it."""
        for suite, row in other.suites.items():
            mine = self.suites.setdefault(suite, dict.fromkeys(row, 0))
            for name, number in row.items():
                mine[name] += number
        for name in ("figures", "sdk_rows", "inits", "broken_builds", "failures", "reruns"):
            getattr(self, name).update(getattr(other, name))
        self.held |= other.held
        self.sdks = self.sdks or other.sdks
        self.errors += other.errors
        return self

    def pass_again(self, commands):
        """Runs what failed once more, one test after the other. Returns whether all of it passes; then it counts as passed.
        `commands` has a command for each group."""
        counted = {suite: row["failed"] for suite, row in self.suites.items() if row["failed"]}
        named = {suite: len(self.failures.get(suite, [])) for suite in self.reruns}
        if not counted or counted != named or sum(named.values()) > MOST_AGAIN or len(self.reruns) != len(self.errors):
            return False
        for suite, (group, arguments) in self.reruns.items():
            for test in self.failures[suite]:
                show(f"suite: {suite}, again and alone: {test}\n".encode())
                alone = [*arguments, "--", "--exact", "--include-ignored", test]
                if group not in commands or subprocess.run([*commands[group], *alone], close_fds=False).returncode:
                    return False
        for suite in self.reruns:
            row = self.suites[suite]
            row["passed"], row["failed"] = row["passed"] + row["failed"], 0
            for test in self.failures[suite]:
                self.keep(suite, test)
        return True

    def parts(self):
        """What there is of it."""
        suites = [
            {"suite": suite, **{name: round(value, 1) if name == "seconds" else value for name, value in row.items()}}
            for suite, row in self.suites.items()
        ]
        sdk = {"kinds": self.sdks, "rows": self.sdk_rows} if self.sdk_rows else {}
        every = {"suites": suites, "figures": self.figures, "held": sorted(self.held), "sdk": sdk, "inits": self.inits,
                 "broken_builds": self.broken_builds}
        return {name: part for name, part in every.items() if part}

    def table(self):
        width = max((len(suite) for suite in self.suites), default=0)
        lines = [f"{'suite':<{width}}  {'passed':>7}  {'failed':>7}  {'ignored':>7}  {'seconds':>8}"]
        counts = ("passed", "failed", "ignored")
        for suite, row in self.suites.items():
            cells = [f"{row[name]:>7,}" if any(row[one] for one in counts) else f"{'-':>7}" for name in counts]
            lines.append(f"{suite:<{width}}  {'  '.join(cells)}  {row['seconds']:>8.1f}")
        return lines

    def sum(self, is_good, seconds):
        passed, failed, ignored = (sum(row[name] for row in self.suites.values()) for name in ("passed", "failed", "ignored"))
        word = "ok" if is_good else "FAILED"
        return (f"test result: {word}. {passed} passed; {failed} failed; {ignored} ignored; 0 measured; 0 filtered out; "
                f"finished in {seconds:.2f}s")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.strip()


def wanted_tests():
    words = re.findall(r"[a-z0-9_]+", (ROOT / "tests/modes.txt").read_text(encoding="utf-8"))
    return {word for word in words if word.count("_") >= 3}


class Command:
    """One of the commands that run side by side."""

    def __init__(self, words, wanted):
        self.run = Run(wanted)
        # What it has printed and nobody has seen; None while its output is shown as it comes.
        self.unseen = []
        self.screen = threading.Lock()
        # The descriptors of make's job server go on to a make below.
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, close_fds=False)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.run.take(line.decode("utf-8", "replace").rstrip("\n"))
            with self.screen:
                if self.unseen is None:
                    show(line)
                else:
                    self.unseen.append(line)
        self.run.end()

    def end(self):
        """Shows what it prints, to its end. Returns its exit status."""
        with self.screen:
            show(*self.unseen)
            self.unseen = None
        status = self.process.wait()
        self.reader.join(LAST_WORDS)
        self.run.end()
        return 128 - status if status < 0 else status


def show(*lines):
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()


def split(words):
    """`a b --beside c --again "" d` as [[a, b], [c]] and {"": [d]}."""
    commands, again = [[]], []
    last = commands
    for word in words:
        if word in ("--beside", "--again"):
            last = commands if word == "--beside" else again
            last.append([])
        else:
            last[-1].append(word)
    return commands, {group: command for group, *command in again}


def main():
    target = sys.argv[1]
    given = [f"{name}={shlex.quote(os.environ[name])}" for name in VARIABLES if os.environ.get(name)]
    facts = {
        "command": " ".join(["make", target, *given]),
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "revision": git("rev-parse", "--short=8", "HEAD") or "unknown",
        "is_clean": not git("status", "--porcelain", "--untracked-files=no", "--", ".", *NO_SOURCES),
        "processors": os.cpu_count(),
    }
    began, wanted = time.monotonic(), wanted_tests()
    together, again = split(sys.argv[3:])
    commands = [Command(words, wanted) for words in together]
    # Ctrl-C reaches the commands by itself, and their output is shown to the end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: [command.process.terminate() for command in commands])
    status = max([command.end() for command in commands])
    run = functools.reduce(Run.join, (command.run for command in commands))
    second = {}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if status and again and run.pass_again(again):
        status, second = 0, {suite: run.failures[suite] for suite in run.reruns}
    seconds = time.monotonic() - began
    if run.suites:
        print("", *run.table(), "", sep="\n")
        if status and run.errors:
            print(*run.errors, sep="\n")
        for suite, tests in second.items():
            print(*(f"passed the second time, alone: {suite} {test}" for test in tests), sep="\n")
        print(run.sum(status == 0, seconds), flush=True)
    if not os.environ.get("ARGS") and run.parts():
        OUT.mkdir(parents=True, exist_ok=True)
        kept = {**facts, "status": status, "seconds": round(seconds), **({"second": second} if second else {}), **run.parts()}
        (OUT / f"{target}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
