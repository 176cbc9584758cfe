"""Requests at a fixed rate, in turns to the backend itself, through a bare relay and through the gateway: run as the worker of ojs-init.

    gateway_load.py BACKEND RELAY OUT SECONDS RATE CONNECTIONS {kept,fresh}

Each thread has one connection of each way, or opens one for each request. When a request is due does not depend on the answers before
it. The order of the ways is another one each time they had their turns. OUT gets one line for each way: its name, then the
microseconds of each request.
"""

import os
import random
import socket
import sys
import threading
import time
from typing import Dict, List, Optional, Tuple
from urllib.parse import urlsplit

# Longest wait for an answer, in seconds.
PATIENCE = 20.0

PATH = "/ojs/v1/queues/default/stats"


class Client:
    """One connection, or one for each request."""

    def __init__(self, address: Tuple[str, int], is_kept: bool) -> None:
        self.address, self.is_kept = address, is_kept
        self.socket: Optional[socket.socket] = None
        lines = [f"GET {PATH} HTTP/1.1", f"Host: {address[0]}:{address[1]}", "Accept: application/json"]
        lines += [] if is_kept else ["Connection: close"]
        self.request = ("\r\n".join(lines) + "\r\n\r\n").encode()

    def ask(self) -> None:
        if self.socket is None:
            self.socket = socket.create_connection(self.address, PATIENCE)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(self.request)
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.more()
        head, _, body = got.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        if b" 200 " not in lines[0] + b" ":
            raise ConnectionError(f"{lines[0]!r}")
        lengths = [line.split(b":")[1] for line in lines if line.lower().startswith(b"content-length:")]
        left = int(lengths[0]) - len(body)
        while left > 0:
            left -= len(self.more())
        if not self.is_kept:
            self.socket.close()
            self.socket = None

    def more(self) -> bytes:
        assert self.socket is not None
        got = self.socket.recv(65536)
        if not got:
            raise ConnectionError("closed in the middle of an answer")
        return got


def run(number: int, ways: Dict[str, Tuple[str, int]], plan: Tuple[float, float, int, bool], out: Dict[str, List[float]]) -> None:
    seconds, rate, connections, is_kept = plan
    clients = [(name, Client(address, is_kept)) for name, address in ways.items()]
    period = connections / rate
    for _, client in clients:
        client.ask()
    due = time.monotonic() + period * number / connections
    end = due + seconds
    # The same order in each run.
    chance = random.Random(number)
    turns: List[Tuple[str, Client]] = []
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        turns = turns or chance.sample(clients, len(clients))
        name, client = turns.pop()
        began = time.perf_counter_ns()
        client.ask()
        out[name].append((time.perf_counter_ns() - began) / 1e3)
        due += period


def address_of(text: str) -> Tuple[str, int]:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def main() -> None:
    backend, relay, place, seconds, rate, connections, kind = sys.argv[1:]
    gateway = urlsplit(os.environ["OJS_URL"])
    ways = {
        "direct": address_of(backend),
        "bare_relay": address_of(relay),
        "gateway": (str(gateway.hostname), int(gateway.port or 80)),
    }
    plan = (float(seconds), float(rate), int(connections), kind == "kept")
    found: List[Dict[str, List[float]]] = [{name: [] for name in ways} for _ in range(plan[2])]
    threads = [threading.Thread(target=run, args=(number, ways, plan, out)) for number, out in enumerate(found)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [" ".join([name, *(f"{us:.1f}" for out in found for us in out[name])]) for name in ways]
    with open(place + ".new", "w", encoding="ascii") as file:
        file.write("\n".join(lines) + "\n")
    os.rename(place + ".new", place)
    time.sleep(PATIENCE)


main()
