"""A worker under a test's control that speaks HTTP with its backend, as the OJS SDKs do: executes the script in its first argument,
which has these words in its hands.

What the script notes, the test reads: one line at a time, appended to the file NOTES. Standard library only.
"""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.parse

NOTES = os.open(os.environ["NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def note(*words):
    os.write(NOTES, (" ".join(map(str, words)) + "\n").encode())


def rest():
    """Stays until a signal ends it."""
    while True:
        time.sleep(60)


def child(body):
    """A child process that does this and then exits."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    return pid


def orders(word):
    """Waits until the test has given this order."""
    while True:
        try:
            with open(os.environ["NOTES"] + ".orders") as given:
                if word in given.read().split("\n")[:-1]:
                    return
        except FileNotFoundError:
            pass
        time.sleep(0.005)


def request(method, path, body=None, headers=()):
    """The bytes of a request."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: backend", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def post(operation, **fields):
    return request("POST", f"/ojs/v1/workers/{operation}", fields)


def fetch(**fields):
    return post("fetch", **{"queues": ["default"], "count": 1, "worker_id": "w", **fields})


class Link:
    """One connection to whoever is the backend."""

    def __init__(self, receive=None):
        url = urllib.parse.urlsplit(os.environ["OJS_URL"])
        self.socket = socket.socket()
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.connect((url.hostname, url.port))
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def take(self, count):
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def until(self, end):
        while end not in self.buffer:
            if not self.more():
                return None
        return self.take(self.buffer.index(end) + len(end))

    def answer(self, has_body=True):
        """Status, headers and body of the next answer; None when there will be no more."""
        head = self.until(b"\r\n\r\n")
        if head is None:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        status = int(first.split(" ")[1])
        body = b""
        if not has_body or status == 100:
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                while len(self.buffer) < size + 2:
                    assert self.more()
                body += self.take(size + 2)[:-2]
            self.until(b"\r\n")
        elif "content-length" in headers:
            while len(self.buffer) < int(headers["content-length"]):
                assert self.more()
            body = self.take(int(headers["content-length"]))
        else:
            while self.more():
                pass
            body = self.take(len(self.buffer))
        return status, headers, body

    def ask(self, data):
        self.send(data)
        return self.answer()

    def job(self):
        """Asks until there is a job; its envelope."""
        while True:
            _, _, body = self.ask(fetch())
            for job in json.loads(body)["jobs"]:
                return job

    def is_closed(self):
        """Waits for the other side to close; an answer instead is a mistake."""
        return not self.more()


exec(compile(sys.argv[1], "script", "exec"))
