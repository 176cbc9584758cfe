"""What each part of a run is given, besides the programs."""

from dataclasses import dataclass
from typing import Any, Callable, List, Optional

# Says a line to whoever watches.
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wishes:
    # How often ours and the bare loop take turns.
    rounds: int
    # Only with so many jobs at once; None: with each number.
    jobs: Optional[List[int]] = None
    # How many ojs-init a fleet has.
    workers: int = 300

    def want(self, jobs: int) -> bool:
        return self.jobs is None or jobs in self.jobs


# A part measures, and gives the rows of its table.
Part = Callable[[Any, Wishes, Say], List[Any]]
