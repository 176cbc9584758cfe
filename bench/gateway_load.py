"""Requests at a fixed rate, in turns to the backend itself, through a bare relay and through the gateway: run as the worker of ojs-init.

    gateway_load.py BACKEND RELAY OUT SECONDS RATE CONNECTIONS {kept,fresh}

Each thread has one connection of each way, or opens one for each request. All of them go the same way for a part of a second, so that each
way has all of the rate in its turn; the order of the ways is another one each time they had their turns. When a request is due does not
depend on the answers before it, and its time counts from then on: who is late makes the next one late. OUT gets one line for each way:
its name, then the microseconds of each request.
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

# Seconds of one turn, and until the first one.
TURN = 0.5
LEAD = 0.1

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


def turn_of(names: List[str], turn: int) -> str:
    """Whose turn it is: each has one before any has the next, in an order of chance that is the same in each run and for all threads."""
    return random.Random(turn // len(names)).sample(names, len(names))[turn % len(names)]


class Plan:
    """What all threads have to do, and when they begin: all at the same time."""

    def __init__(self, seconds: str, rate: str, connections: str, kind: str) -> None:
        self.seconds, self.rate, self.connections = float(seconds), float(rate), int(connections)
        self.is_kept = kind == "kept"
        self.began = 0.0
        self.is_ready = threading.Barrier(self.connections, self.begin)

    def begin(self) -> None:
        self.began = time.monotonic() + LEAD


def run(number: int, ways: Dict[str, Tuple[str, int]], plan: Plan, out: Dict[str, List[float]]) -> None:
    clients = {name: Client(address, plan.is_kept) for name, address in ways.items()}
    period = plan.connections / plan.rate
    for client in clients.values():
        client.ask()
    plan.is_ready.wait(PATIENCE)
    began = plan.began
    due = began + period * number / plan.connections
    while due < began + plan.seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        name = turn_of(list(clients), int((due - began) / TURN))
        clients[name].ask()
        out[name].append((time.monotonic() - due) * 1e6)
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
    plan = Plan(seconds, rate, connections, kind)
    found: List[Dict[str, List[float]]] = [{name: [] for name in ways} for _ in range(plan.connections)]
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
