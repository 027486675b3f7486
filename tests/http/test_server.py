"""The HTTP layer alone, with an answer of the test's own: faults, overload, limits, readiness."""

from __future__ import annotations

import asyncio
import json
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvloop

from certs import throwaway
from certs.serving import ServingCertificate
from tests.http.wire import PATIENCE, Answer, Connection, request
from webhook import logs
from webhook.metrics import Metrics
from webhook.review import BadReview
from webhook.server import Limits, MutateServer

LOOSE = Limits(lag=1000.0)


@dataclass
class Running:
    """A MutateServer on an event loop in a thread of its own."""

    port: int
    ca: Path
    metrics: Metrics

    def ask(self, data: bytes) -> Answer:
        with Connection(self.port, self.ca) as connection:
            return connection.ask(data)

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


@contextmanager
def serving(
    folder: Path,
    answer: Callable[[bytes], bytes] = lambda body: body,
    *,
    limits: Limits = LOOSE,
    why_not_ready: Callable[[], str] = lambda: "",
) -> Iterator[Running]:
    made = throwaway.make(folder)
    metrics, started, stop = Metrics(), threading.Event(), threading.Event()
    running: list[Running] = []

    async def serve() -> None:
        server = MutateServer(answer, why_not_ready, metrics, limits)
        port = await server.start("127.0.0.1", 0, ServingCertificate(made.certificate, made.key).context)
        running.append(Running(port, made.ca, metrics))
        started.set()
        await asyncio.to_thread(stop.wait)
        await server.close()

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    try:
        assert started.wait(30)
        yield running[0]
    finally:
        stop.set()
        thread.join()


def test_our_own_fault_is_a_500_that_shows_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def answer(body: bytes) -> bytes:
        try:
            raise KeyError("a value of the pod")
        except KeyError as error:
            raise ValueError(body.decode()) from error

    stream = logs.Stream()
    logs.set_up("json", "info", stream)
    with serving(tmp_path, answer) as server, Connection(server.port, server.ca) as connection:
        failed = connection.ask(request(b"another value of the pod"))
        assert (failed.code, failed.json["kind"], failed.json["reason"]) == (500, "Status", "InternalError")
        assert connection.ask(request(b"and again")).code == 500, "the connection stays"
        assert server.metric("spark_webhook_http_errors_total", code="500") == 2
    stream.close()
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["level"] for line in lines] == ["error", "error"], "one line each"
    assert lines[0]["error_id"] in failed.json["message"]
    assert "ValueError" in lines[0]["traceback"]
    assert "KeyError" in lines[0]["traceback"]
    assert "test_server.py" in lines[0]["traceback"]
    for text in (json.dumps(lines), failed.body.decode()):
        assert "another value of the pod" not in text
    assert "Traceback" not in failed.body.decode()


def test_what_the_review_refuses_is_passed_on(tmp_path: Path) -> None:
    def answer(_body: bytes) -> bytes:
        raise BadReview(400, "not this one")

    with serving(tmp_path, answer) as server:
        refused = server.ask(request(b"x"))
        assert (refused.code, refused.json["message"]) == (400, "not this one")
        assert server.metric("spark_webhook_http_errors_total", code="400") == 1


def test_not_ready_sends_clients_away_for_a_second(tmp_path: Path) -> None:
    reason = ["not yet"]
    with serving(tmp_path, why_not_ready=lambda: reason[0]) as server:
        sent_away = server.ask(request(b"x"))
        assert (sent_away.code, sent_away.headers["retry-after"]) == (503, "1")
        assert (sent_away.json["reason"], sent_away.json["message"]) == ("ServiceUnavailable", "not yet")
        reason[0] = ""
        assert server.ask(request(b"x")).body == b"x"


def test_a_body_of_exactly_the_limit_is_taken(tmp_path: Path) -> None:
    with serving(tmp_path, limits=Limits(body=100, lag=1000.0)) as server:
        assert server.ask(request(b"x" * 100)).code == 200
        assert server.ask(request(b"x" * 101)).code == 413


def test_bodies_that_are_still_arriving_share_a_budget(tmp_path: Path) -> None:
    limits = Limits(body=60_000, reading=90_000, lag=1000.0)
    data = request(b"x" * 50_000)
    with (
        serving(tmp_path, limits=limits) as server,
        Connection(server.port, server.ca) as one,
        Connection(server.port, server.ca) as other,
    ):
        one.send(data[:-1])
        other.send(data[:-1])
        readable = select.select([one.socket, other.socket], [], [], PATIENCE)[0]
        late, early = (one, other) if readable[0] is one.socket else (other, one)
        refused = late.answer()
        assert (refused.code, refused.headers["retry-after"]) == (503, "1")
        early.send(data[-1:])
        assert early.answer().code == 200
        assert early.ask(data).code == 200, "the budget is given back"
        assert server.metric("spark_webhook_in_flight_requests") == 0


def test_when_the_queue_is_too_old_new_requests_are_sent_away(tmp_path: Path) -> None:
    def answer(body: bytes) -> bytes:
        time.sleep(float(body))
        return body

    with (
        serving(tmp_path, answer, limits=Limits(lag=0.5)) as server,
        Connection(server.port, server.ca) as busy,
        Connection(server.port, server.ca) as late,
    ):
        busy.send(request(b"1.5"))
        time.sleep(0.2)
        sent_away = late.ask(request(b"0"))
        assert (sent_away.code, sent_away.headers["retry-after"]) == (503, "1")
        assert busy.answer().code == 200, "what was read is answered"
        while late.ask(request(b"0")).code == 503:
            time.sleep(0.05)


def test_connections_are_closed_when_they_were_idle_for_too_long(tmp_path: Path) -> None:
    with (
        serving(tmp_path, limits=Limits(keep_alive=0.3, lag=1000.0)) as server,
        Connection(server.port, server.ca) as silent,
        Connection(server.port, server.ca) as used,
    ):
        assert used.ask(request(b"x")).code == 200
        assert silent.at_end()
        assert used.at_end()


def test_idle_connections_outlive_those_of_an_api_server() -> None:
    assert Limits().keep_alive > 95, "an API server closes its own after 80 to 95 seconds"


def test_closing_waits_for_a_body_that_is_on_its_way(tmp_path: Path) -> None:
    answers = []

    def finish(connection: Connection) -> None:
        time.sleep(0.5)
        connection.send(b"z")
        answers.append(connection.answer())

    with serving(tmp_path) as server:
        connection = Connection(server.port, server.ca)
        connection.send(request(b"xyz")[:-1])
        while server.metric("spark_webhook_in_flight_requests") != 1:
            time.sleep(0.01)
        thread = threading.Thread(target=finish, args=(connection,))
        thread.start()
    thread.join()
    connection.close()
    assert answers[0].body == b"xyz"
    assert answers[0].headers["connection"] == "close"
