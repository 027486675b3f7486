"""A client that is faster than what it measures: prebuilt requests over non-blocking TLS sockets.

It keeps one request under way on each connection, as fast as the answers come.
"""

from __future__ import annotations

import select
import selectors
import socket
import ssl
import time
from contextlib import ExitStack
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What one run saw: answers, the seconds they took together, each one's seconds in ascending order."""

    answers: int
    seconds: float
    latencies: list[float]

    @property
    def rate(self) -> float:
        """Answers a second."""
        return self.answers / self.seconds

    def quantile(self, part: float) -> float:
        """Seconds within which this part (0 to 1) of the requests was answered."""
        return self.latencies[min(int(len(self.latencies) * part), len(self.latencies) - 1)]


class Connection:
    """One TLS connection with at most one request under way. Reads status and body of an answer."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        plain = socket.create_connection(("127.0.0.1", port), timeout=10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self.socket.setblocking(False)
        self.started = 0.0
        self._answer = bytearray()
        self._missing = -1  # bytes of the answer that are still to come; below 0: its head is not complete

    def ask(self, request: bytes) -> None:
        """Sends a request. A socket's buffer holds a whole one, so it never has to be sent in parts."""
        self._answer.clear()
        self._missing = -1
        self.started = time.perf_counter()
        self.socket.sendall(request)

    def answered(self) -> bool:
        """Takes in what has come; True once the answer is complete.

        Raises:
            ConnectionError: the server closed the connection, or answered with another status than 200.
        """
        try:
            while self._missing:
                data = self.socket.recv(65536)
                if not data:
                    raise ConnectionError("the server closed the connection")
                self._answer += data
                self._measure(len(data))
        except ssl.SSLWantReadError:
            return False
        return True

    def body(self) -> bytes:
        """The body of the complete answer."""
        return bytes(self._answer.partition(b"\r\n\r\n")[2])

    def _measure(self, came: int) -> None:
        if self._missing >= 0:
            self._missing -= came
            return
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if end:
            if not head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(bytes(self._answer).decode(errors="replace"))
            length = head.lower().partition(b"content-length:")[2].split(b"\r", 1)[0]
            self._missing = int(length) - len(body)


def request(target: str, body: bytes) -> bytes:
    """A request as the API server sends it."""
    head = (
        f"POST {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\nAccept: application/json, */*\r\n"
        "Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
    )
    return head.encode() + body


def ask(port: int, context: ssl.SSLContext, requests: list[bytes]) -> list[bytes]:
    """The bodies of the answers, asked one after the other."""
    bodies = []
    connection = Connection(port, context)
    with connection.socket:
        for each in requests:
            connection.ask(each)
            while not connection.answered():
                select.select([connection.socket], [], [])
            bodies.append(connection.body())
    return bodies


def run(
    port: int, context: ssl.SSLContext, requests: list[bytes], seconds: float, connections: int = 8
) -> Load:
    """Asks for `seconds`, going round the requests."""
    latencies: list[float] = []
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for number in range(connections):
            connection = Connection(port, context)
            stack.enter_context(connection.socket)
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.ask(requests[number % len(requests)])
        sent = connections
        begin = now = time.perf_counter()
        while now < begin + seconds:
            for key, _ in selector.select():
                connection = key.data
                if connection.answered():
                    now = time.perf_counter()
                    latencies.append(now - connection.started)
                    connection.ask(requests[sent % len(requests)])
                    sent += 1
    return Load(len(latencies), now - begin, sorted(latencies))
