"""Sends e-mails, or would: email.send [to, body]. Start it with: ojs-init -- python3 worker.py"""

from ojs_worker import Discard, Job, Worker, install_logging

install_logging()
worker = Worker()


@worker.job("email.send")
def send(job: Job) -> dict[str, bool]:
    to, _body = job.args
    if "@" not in to:
        raise Discard(f"{to} is no address")
    # `meta.sleep_ms` makes the work take that long; a cancel ends the wait.
    if job.cancelled.wait(job.meta.get("sleep_ms", 0) / 1000):
        job.raise_if_cancelled()
    return {"sent": True}


if __name__ == "__main__":
    worker.run()
