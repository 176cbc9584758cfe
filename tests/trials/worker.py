import fcntl
import os
import sys
import time

sys.path.insert(0, "clients/python")
from ojs_worker import Worker

directory = os.environ["TRIAL_DIRECTORY"]
worker = Worker(concurrency=int(os.environ["OJS_CONCURRENCY"]))
alive = open(directory + "/alive", "a")
fcntl.flock(alive, fcntl.LOCK_SH)


def note(word, job):
    line = f"{time.monotonic_ns()} {word} {job.id} group-{os.getpgrp()}\n"
    with open(directory + "/journal", "a") as journal:
        journal.write(line)


def rest(job, how):
    if not how["at_deadline"]:
        return job.cancelled.wait(how["ms"] / 1000)
    while job.remaining() is None and not job.cancelled.wait(0.005):
        pass
    left = (job.remaining() or 0) + how["ms"] / 1000
    time.sleep(max(left, 0))


@worker.job("t")
def handle(job):
    with open(directory + "/job-" + job.id, "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            note("overlap", job)
            return
        note("took", job)
        how = job.args[0]
        rest(job, how)
        if how["end"] == "never":
            job.cancelled.wait()
        if job.cancel_reason == "shutdown":
            note("cancelled", job)
        while how["end"] == "never":
            time.sleep(1)
    if how["end"] == "fail":
        raise RuntimeError("as told")
    return f"{job.id}@{os.getpgrp()}" + "x" * (48 << 10 if how["large"] else 0)


worker.run()
