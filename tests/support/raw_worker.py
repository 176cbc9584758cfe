"""A worker under a test's control: executes the script in its first argument, which has these words in its hands.

What the script notes, the test reads: one line at a time, appended to the file NOTES. Standard library only.
"""

import json
import os
import select
import signal
import socket
import sys
import time

NOTES = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def note(*words):
    os.write(NOTES, (" ".join(map(str, words)) + "\n").encode())


# Readable once a signal has arrived that has a handler.
WOKEN, WAKES = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)


def note_signals(*numbers):
    """From here on these signals are noted, and nothing else happens."""
    signal.set_wakeup_fd(WAKES)
    for number in numbers:
        signal.signal(number, lambda number, _: note("signal", int(number)))


def rest():
    """Stays until a signal ends it. The handler of one that arrives right before a sleep would run after it."""
    while True:
        select.select([WOKEN], [], [], 60)
        try:
            os.read(WOKEN, 1024)
        except BlockingIOError:
            pass


def die(number=signal.SIGKILL):
    os.kill(os.getpid(), number)


def child(body, session=False):
    """A child process that does this and then exits."""
    pid = os.fork()
    if pid == 0:
        if session:
            os.setsid()
        try:
            body()
        except SystemExit as end:
            os._exit(end.code or 0)
        finally:
            os._exit(0)
    return pid


def orders():
    """What the test has ordered so far, without the line that may still be on its way."""
    try:
        with open(os.environ["NOTES"] + ".orders") as given:
            return given.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


class Link:
    """One connection to ojs-init."""

    def __init__(self, path=None):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path or os.environ["OJS_SOCKET"])
        self.buffer = b""

    def raw(self, data):
        self.socket.sendall(data)

    def say(self, kind, **fields):
        self.raw(json.dumps({"type": kind, **fields}).encode() + b"\n")

    def line(self):
        """The next frame as it came, without its line break; None when there will be no more."""
        while b"\n" not in self.buffer:
            try:
                more = self.socket.recv(1 << 20)
            except ConnectionError:
                more = b""
            if not more:
                return None
            self.buffer += more
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def until(self, *kinds):
        """The next frame of one of these types; those before it are dropped. At the end: exit."""
        while True:
            line = self.line()
            if line is None:
                note("closed")
                sys.exit(3)
            frame = json.loads(line)
            if frame["type"] in kinds:
                return frame

    def ready(self, concurrency=1, **more):
        hello = self.until("hello")
        self.say("ready", protocol=1, concurrency=concurrency, **more)
        note("ready")
        return hello

    def job(self):
        """Waits for a job, notes it and returns its id."""
        job = self.until("job")["job"]
        note("job", job["id"])
        return job["id"]

    def ack(self, job, **more):
        self.say("ack", job_id=job, **more)

    def work(self):
        """Acks whatever comes, until the end."""
        while True:
            self.ack(self.job())

    def note_all(self):
        """Notes every frame until the end: lifecycle with its state and reason, the others with the job."""
        while self.note_next():
            pass

    def note_next(self):
        """Notes the next frame; false: there will be no more."""
        line = self.line()
        if line is None:
            note("closed")
            return False
        frame = json.loads(line)
        if frame["type"] == "job":
            note("job", frame["job"]["id"])
            return True
        words = [frame.get(name) for name in ("state", "reason", "code", "job_id", "for")]
        note(frame["type"], *[word for word in words if word is not None])
        return True

    def obey(self):
        """Notes every frame, and says what the test orders: one line each in the file NOTES.orders, the type of a frame,
        the job, and further fields as JSON, such as: fail j1 {"error": {"message": "no"}}"""
        done = len(orders())
        while True:
            given = orders()
            for order in given[done:]:
                kind, job, *more = order.split(" ", 2)
                self.say(kind, job_id=job, **(json.loads(more[0]) if more else {}))
            done = len(given)
            if b"\n" in self.buffer or select.select([self.socket], [], [], 0.01)[0]:
                if not self.note_next():
                    return


def main():
    # A test that goes wrong shall not wait for a traceback on a standard error that nobody shows.
    try:
        exec(compile(sys.argv[1], "script", "exec"), globals())
    except Exception as error:
        note("broken:", repr(error))
        raise


main()
