"""Behaves as a worker on the Python SDK does, with its faults. What the variables mean: tests/README.md."""

import fcntl, http.client, json, os, random, signal, sys, threading, time, urllib.parse, uuid

URL = urllib.parse.urlsplit(os.environ["OJS_URL"])
POLL = float(os.environ.get("SDK_POLL_MS", 2000)) / 1000
HEARTBEAT = float(os.environ.get("SDK_HEARTBEAT_MS", 5000)) / 1000
CONCURRENCY = int(os.environ.get("SDK_CONCURRENCY", 10))
DIRECTORY = os.environ.get("SDK_DIRECTORY")
# The SDK reads a body only if its type says application/json.
TAKES_ANY_TYPE = "SDK_TAKES_ANY_TYPE" in os.environ
# Nothing sets it in the SDK either.
GRACE = 25.0
# Longest that a worker is there that nobody ends.
LIFE = int(os.environ.get("SDK_LIFE_S", 0))
WORKER_ID = f"worker-{uuid.uuid4()}"

held = {}
held_changed = threading.Condition()
stopping = threading.Event()
quiet = threading.Event()
connections = threading.local()


def note(word, job, attempt=""):
    if DIRECTORY:
        line = f"{time.monotonic_ns()} {word} {job} {attempt}\n".encode()
        journal = os.open(f"{DIRECTORY}/journal", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o666)
        os.write(journal, line)
        os.close(journal)


def log(text):
    print(text, file=sys.stderr, flush=True)


class Refused(Exception):
    def __init__(self, status):
        self.status = status


def send(path, body):
    """One request on this thread's connection, which is kept."""
    connection = getattr(connections, "kept", None)
    if connection is None:
        kind = http.client.HTTPSConnection if URL.scheme == "https" else http.client.HTTPConnection
        connection = connections.kept = kind(URL.hostname, URL.port, timeout=30)
    headers = {"Content-Type": "application/openjobspec+json", "Accept": "application/openjobspec+json"}
    headers |= {"OJS-Version": "1.0", "X-Request-ID": str(uuid.uuid4())}
    try:
        connection.request("POST", URL.path.rstrip("/") + "/ojs/v1" + path, json.dumps(body), headers)
        reply = connection.getresponse()
        data = reply.read()
    except (OSError, http.client.HTTPException):
        connection.close()
        connections.kept = None
        raise
    if reply.status >= 400:
        raise Refused(reply.status)
    if TAKES_ANY_TYPE or "application/json" in reply.getheader("Content-Type", ""):
        return json.loads(data)
    return {}


def post(path, body):
    for pause in (0.5, 1, 2, None):
        try:
            return send(path, body)
        except Refused as refused:
            if refused.status not in (429, 502, 503, 504) or pause is None:
                raise
            time.sleep(pause)


def report(path, body):
    """An outcome is tried three times."""
    for pause in (0.5, 1, None):
        try:
            return post(path, body)
        except (OSError, ValueError, http.client.HTTPException, Refused):
            if pause is None:
                raise
            time.sleep(pause)


def handle(job):
    args = job.get("args") or [0]
    kind = job["type"]
    if kind == "ok":
        return args[0]
    time.sleep(args[0] / 1000)
    if kind == "enqueue":
        post("/jobs", {"type": args[1], "args": args[2:], "queue": job["queue"]})
    if kind == "fail":
        raise ValueError("failed as told")
    return "x" * args[1] if kind == "large" else {"slept": args[0]}


def run(job):
    ident, attempt = job["id"], job.get("attempt")
    with open(f"{DIRECTORY or '/tmp'}/job-{ident}", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            note("took", ident, attempt)
        except BlockingIOError:
            note("overlap", ident, attempt)
        try:
            result = handle(job)
            outcome = ("acked", "/workers/ack", {"job_id": ident, "result": result})
        except Exception as error:
            failure = {"code": "handler_error", "message": str(error), "retryable": True}
            outcome = ("failed", "/workers/nack", {"job_id": ident, "error": failure | {"details": {"traceback": "..."}}})
    word, path, body = outcome
    note("ended", ident, attempt)
    try:
        report(path, body)
        note(word, ident, attempt)
    except Exception as error:
        note("unreported", ident, attempt)
        log(f"job {ident}: {error!r}")
    with held_changed:
        held.pop(ident, None)
        held_changed.notify_all()


def fetch():
    while not stopping.is_set():
        if quiet.is_set() or len(held) >= CONCURRENCY:
            stopping.wait(0.02)
            continue
        jobs = []
        try:
            body = {"queues": ["default"], "count": 1, "worker_id": WORKER_ID, "visibility_timeout_ms": 30000}
            jobs = post("/workers/fetch", body).get("jobs") or []
        except Exception as error:
            log(f"fetch: {error!r}")
        for job in jobs:
            with held_changed:
                held[job["id"]] = job
            threading.Thread(target=run, args=[job], daemon=True).start()
        if not jobs:
            stopping.wait(POLL * random.uniform(0.8, 1.2))


def beat():
    while not stopping.wait(HEARTBEAT):
        if quiet.is_set() and not held:
            continue
        try:
            body = {"worker_id": WORKER_ID, "active_jobs": list(held), "visibility_timeout_ms": 30000}
            state = post("/workers/heartbeat", body).get("state")
        except Exception as error:
            log(f"heartbeat: {error!r}")
            continue
        if state == "quiet":
            quiet.set()
        elif state == "terminate":
            stopping.set()


def on_stop_signal(number, frame):
    note("terminated", os.getpid())
    stopping.set()


signal.alarm(LIFE)
alive = open(f"{DIRECTORY}/alive", "a") if DIRECTORY else None
if alive:
    fcntl.flock(alive, fcntl.LOCK_SH)
signal.signal(signal.SIGTERM, on_stop_signal)
signal.signal(signal.SIGINT, on_stop_signal)
note("started", os.getpid())
threads = [threading.Thread(target=target, daemon=True) for target in (fetch, beat)]
for thread in threads:
    thread.start()
while not stopping.wait(1):
    pass
deadline = time.monotonic() + GRACE
threads[0].join()
log(f"waiting for {len(held)} active jobs")
with held_changed:
    held_changed.wait_for(lambda: not held, max(0, deadline - time.monotonic()))
left = list(held)
if left:
    log(f"{len(left)} active jobs are cancelled")
for ident in left:
    error = {"code": "cancelled", "message": "worker is stopping", "retryable": True}
    try:
        report("/workers/nack", {"job_id": ident, "error": error})
        note("failed", ident)
    except Exception as failure:
        log(f"job {ident}: {failure!r}")
# What a handler still does ends here.
os._exit(0)
