"""What the kernel knows about a process."""

import os
import time
from pathlib import Path
from typing import Dict, List

# The clock of the processor time of a whole process, by its number (clock_getcpuclockid(3)).
CPUCLOCK_SCHED = 2


def cpu_seconds(pid: int) -> float:
    """Processor time of a process until now, in seconds, that of its former threads included."""
    return time.clock_gettime((~pid << 3) | CPUCLOCK_SCHED)


def machine_seconds() -> float:
    """Processor time of everything on this machine until now, in seconds."""
    times = [int(word) for word in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = times[3], times[4]
    return (sum(times) - idle - waiting) / os.sysconf("SC_CLK_TCK")


def status(pid: int) -> Dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def children(pid: int) -> List[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def threads(pid: int) -> int:
    return int(status(pid)["Threads"])


def peak_kib(pid: int) -> int:
    """The most memory that was ever resident, in KiB."""
    return int(status(pid)["VmHWM"].split()[0])


def memory_kib(pid: int) -> Dict[str, int]:
    """What is resident, and what of that each process has for itself: what was written to, not what was read of the file, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
    return {"resident": sizes["Rss"], "private": sizes["Private_Dirty"]}


def switches(pid: int) -> int:
    """How often the threads of a process were put on a processor. Threads that have ended are not counted."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            lines = Path(f"/proc/{pid}/task/{task}/status").read_text().splitlines()
        except FileNotFoundError:
            continue
        total += sum(int(line.split()[1]) for line in lines if "ctxt_switches" in line)
    return total
