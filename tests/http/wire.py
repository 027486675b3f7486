"""A client that says exactly the bytes it is told to, over verified TLS, and reads what comes back.

It knows HTTP just as far as the answers need it, so that a test can break every rule of a request.
"""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PATIENCE = 30.0  # seconds: when nothing comes for so long, the test has failed
HEAD = (
    "POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: kube-apiserver-admission\r\n"
    "Accept: application/json, */*\r\nAccept-Encoding: gzip\r\n"
)
JSON_TYPE = "Content-Type: application/json"


@dataclass(frozen=True)
class Answer:
    """Status code, headers (names in lower case) and body of an HTTP answer."""

    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request(
    body: bytes,
    *headers: str,
    target: str = "/mutate?timeout=5s",
    content_type: str | None = JSON_TYPE,
    length: int | None = None,
) -> bytes:
    """A request with the head that a kube-apiserver sends, changed where the test says so."""
    lines = [*headers, *([content_type] if content_type else [])]
    lines.append(f"Content-Length: {len(body) if length is None else length}")
    return (HEAD.format(target=target) + "\r\n".join(lines) + "\r\n\r\n").encode() + body


def chunked(*chunks: bytes) -> bytes:
    """A request whose body comes in these chunks."""
    head = HEAD.format(target="/mutate?timeout=5s") + JSON_TYPE + "\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head.encode() + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


class Connection:
    """One TLS connection to 127.0.0.1, verified strictly against the authority in this file."""

    def __init__(self, port: int, ca: Path | None) -> None:
        context = ssl.create_default_context(cafile=str(ca))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        try:
            self.socket = context.wrap_socket(plain, server_hostname="127.0.0.1")
        except BaseException:
            plain.close()
            raise
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> Answer:
        """The next answer. Raises EOFError if the connection ends before it is complete."""
        head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        while len(self._rest) < size:
            self._more()
        body, self._rest = self._rest[:size], self._rest[size:]
        return Answer(int(first.split()[1]), headers, body)

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.answer()

    def at_end(self) -> bool:
        """Wait until the server closes; False if it says something more."""
        return not self._rest and self._receive() == b""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            self._more()
        found, _, self._rest = self._rest.partition(mark)
        return found

    def _more(self) -> None:
        data = self._receive()
        if not data:
            raise EOFError("the connection ended without a complete answer")
        self._rest += data

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except (ConnectionError, ssl.SSLEOFError):
            return b""
