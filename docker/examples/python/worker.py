"""A worker that pretends to send mail: email.send [address, seconds]."""

import logging

from ojs_worker import Discard, Job, Worker

worker = Worker()


@worker.job("email.send")
def send(job: Job) -> dict[str, str]:
    address, seconds = [*job.args, 0.1][:2]
    if "@" not in address:
        raise Discard(f"{address} is no address")
    job.cancelled.wait(seconds)  # pretends to send
    job.raise_if_cancelled()
    return {"sent_to": address}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.run()
