"""A review every few milliseconds to a running server, as a process of its own, until standard input ends.

`python -m tests.cluster.pulse HOST NAME CA_FILE`: it speaks TLS to HOST:443, checks the certificate for NAME,
and prints how long each answer took, in milliseconds, as one JSON list.
"""

from __future__ import annotations

import http.client
import json
import select
import socket
import ssl
import sys
import time

from tests import corpus

_PERIOD = 0.01  # seconds
_REVIEW = "4.3.0/cluster-full-driver"


class _Connection(http.client.HTTPSConnection):
    """To an address that has no name here."""

    def __init__(self, address: str, name: str, ca: str) -> None:
        self._address = address
        self._tls = ssl.create_default_context(cafile=ca)
        super().__init__(name, 443, context=self._tls)

    def connect(self) -> None:
        plain = socket.create_connection((self._address, 443), 10)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def main(address: str, name: str, ca: str) -> None:
    body = corpus.body(corpus.review(_REVIEW))
    connection = _Connection(address, name, ca)
    connection.connect()
    took = []
    while not select.select([sys.stdin], [], [], _PERIOD)[0]:
        start = time.perf_counter()
        connection.request("POST", "/mutate?timeout=5s", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        allowed = json.loads(answer.read())["response"]["allowed"]
        took.append((time.perf_counter() - start) * 1000)
        assert answer.status == 200
        assert allowed
    json.dump(took, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
