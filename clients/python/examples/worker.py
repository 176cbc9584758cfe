"""Sends e-mails, or would: email.send [to, body]. Start it with: ojs-init -- python3 worker.py"""

from ojs_worker import Discard, Job, Worker, install_logging

install_logging()
worker = Worker()


@worker.job("email.send")
def send(job: Job, to: str, body: str = "") -> dict[str, bool]:
    if "@" not in to:
        raise Discard(f"{to} is no address")
    # `meta.sleep_ms` makes the work take that long; a cancel ends it.
    job.sleep(job.meta.get("sleep_ms", 0) / 1000)
    return {"sent": True}


if __name__ == "__main__":
    worker.run()
