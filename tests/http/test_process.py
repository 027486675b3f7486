"""The serving process: start, probes, drain, and what it says when it can't start."""

from __future__ import annotations

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from certs import throwaway
from tests import corpus
from tests.http.policies import SECRET_VALUE, body, policy, rejected
from tests.http.test_reload import BROKEN, wait_for
from tests.http.wire import PATIENCE, Connection, request
from webhook.running import RunningServer


class Unready(RunningServer):
    """A server that is not waited for to become ready."""

    def _wait_until_ready(self) -> None:
        pass


def probe(server: RunningServer, path: str) -> tuple[int, str]:
    try:
        return 200, server.probe(path)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_the_probe_port(server: RunningServer) -> None:
    assert probe(server, "/healthz") == (200, "ok\n")
    code, text = probe(server, "/readyz")
    assert (code, text.splitlines()[0]) == (200, "ready")
    assert "policies: 2 in force" in text
    assert "tls: certificate valid until" in text
    assert probe(server, "/mutate")[0] == 404


def test_all_metrics_are_under_one_name(server: RunningServer) -> None:
    with Connection(server.port, server.ca) as connection:
        assert connection.ask(request(body())).code == 200
        assert connection.ask(request(b"")).code == 400
    lines = [line for line in server.probe("/metrics").splitlines() if not line.startswith("#")]
    assert all(line.startswith("spark_webhook_") for line in lines)
    names = {line.rpartition(" ")[0] for line in lines}
    assert 'spark_webhook_admissions_total{reason="Mutated",role="driver"}' in names
    assert 'spark_webhook_http_errors_total{code="400"}' in names
    assert "spark_webhook_certificate_expiry_timestamp_seconds" in names
    assert 'spark_webhook_admission_seconds_bucket{le="0.001"}' in names


def test_metrics_have_no_label_that_a_submitter_chooses(server: RunningServer) -> None:
    review = json.loads(body())
    review["request"]["object"]["metadata"]["labels"]["spark-role"] = "chosen-by-submitter"
    with Connection(server.port, server.ca) as connection:
        assert connection.ask(request(corpus.body(review))).code == 200
    text = server.probe("/metrics")
    assert 'spark_webhook_admissions_total{reason="UnknownSparkRole",role="other"}' in text
    assert "chosen-by-submitter" not in text


def test_one_log_line_for_what_was_changed_or_refused(policies: Path, tmp_path: Path) -> None:
    idle = corpus.review("special/delete-pending-1")
    with (
        RunningServer(policies, log=tmp_path / "log") as server,
        Connection(server.port, server.ca) as connection,
    ):
        for data in (body(), corpus.body(idle), corpus.body(rejected())):
            assert connection.ask(request(data)).code == 200
    admitted, denied = [
        line for line in map(json.loads, server.log_lines()) if str(line["msg"]).startswith("pod ")
    ]
    assert (admitted["level"], admitted["msg"], admitted["reason"]) == ("info", "pod admitted", "Mutated")
    assert admitted["uid"] == json.loads(body())["request"]["uid"]
    assert (admitted["namespace"], admitted["role"], admitted["policies"]) == ("jobs", "driver", ["lake"])
    assert admitted["operations"] > 0
    assert admitted["findings"] == []
    assert admitted["duration_ms"] > 0
    assert (denied["level"], denied["msg"], denied["reason"]) == ("warning", "pod denied", "Denied")
    assert {
        "reason": "ConflictRejected",
        "policy": "strict",
        "field": "driver.env[0]",
        "subject": "env SHARED",
    } in denied["findings"]
    assert SECRET_VALUE not in server.log.read_text()


def test_nothing_is_logged_below_the_level(policies: Path, tmp_path: Path) -> None:
    with (
        RunningServer(policies, "--log-level", "error", log=tmp_path / "log") as server,
        Connection(server.port, server.ca) as connection,
    ):
        assert connection.ask(request(body())).code == 200
    assert server.log_lines() == []


def test_text_log_lines(policies: Path, tmp_path: Path) -> None:
    with RunningServer(policies, "--log-format", "text", log=tmp_path / "log") as server:
        pass
    assert any("INFO" in line and "policies in force count=2" in line for line in server.log_lines())


def test_without_a_good_set_it_is_not_ready_and_says_why(policies: Path, tmp_path: Path) -> None:
    (policies / "policies.yaml").write_text(BROKEN)
    with Unready(policies, log=tmp_path / "log") as server:
        code, text = probe(server, "/readyz")
        assert (code, text.splitlines()[0]) == (503, "not ready")
        assert "policies.yaml:4:8: spec.comon: " in text
        assert probe(server, "/healthz")[0] == 200
        with Connection(server.port, server.ca) as connection:
            answer = connection.ask(request(body()))
            assert (answer.code, answer.headers["retry-after"]) == (503, "1")
            assert answer.json["kind"] == "Status"
            (policies / "policies.yaml").write_text(policy("good", "GOOD"))
            wait_for(lambda: probe(server, "/readyz")[0] == 200)
            assert connection.ask(request(body())).code == 200


def test_an_empty_directory_is_a_valid_set(policies: Path, tmp_path: Path) -> None:
    (policies / "policies.yaml").unlink()
    with RunningServer(policies, log=tmp_path / "log") as server:
        assert "policies: 0 in force" in server.probe("/readyz")


class Client(threading.Thread):
    """Asks over and over until it is turned away; each answer that is missing is a loss.

    A connection that is refused, or ends before our first byte is sent, was never read: an API server takes
    another replica then.
    """

    def __init__(self, server: RunningServer) -> None:
        super().__init__()
        self.server = server
        self.answered = 0
        self.lost: list[str] = []

    def run(self) -> None:
        data = request(body())
        while True:
            try:
                connection = Connection(self.server.port, self.server.ca)
            except OSError:
                return
            with connection:
                while True:
                    try:
                        answer = connection.ask(data)
                    except (OSError, EOFError) as error:
                        self.lost.append(repr(error))
                        return
                    if answer.code != 200:
                        self.lost.append(str(answer))
                        return
                    self.answered += 1
                    if answer.headers.get("connection") == "close":
                        break


def test_a_drain_loses_no_request(policies: Path, tmp_path: Path) -> None:
    with (
        RunningServer(policies, "--shutdown-delay", "1.5", log=tmp_path / "log") as server,
        Connection(server.port, server.ca) as idle,
    ):
        ca = server.ca
        assert ca is not None
        assert idle.ask(request(body())).code == 200
        clients = [Client(server) for _ in range(4)]
        for client in clients:
            client.start()
        wait_for(lambda: all(client.answered > 20 for client in clients))
        os.kill(server.process.pid, signal.SIGTERM)
        wait_for(lambda: probe(server, "/readyz")[0] == 503)
        assert "draining" in probe(server, "/readyz")[1]
        assert probe(server, "/healthz")[0] == 200
        before = [client.answered for client in clients]
        wait_for(lambda: all(client.answered > old for client, old in zip(clients, before, strict=True)))
        answer = idle.ask(request(body()))
        assert (answer.code, answer.headers["connection"]) == (200, "close"), "it takes its leave"
        for client in clients:
            client.join()
        assert server.process.wait(PATIENCE) == 0
        assert [client.lost for client in clients] == [[], [], [], []]
        assert not ca.parent.exists(), "the throwaway certificate is removed"
    logged = [json.loads(line) for line in server.log_lines()]
    assert logged[-1]["msg"] == "stopped"
    assert not [line for line in logged if line["level"] == "error"]


def test_a_second_signal_ends_the_waiting(policies: Path, tmp_path: Path) -> None:
    with RunningServer(policies, "--shutdown-delay", "600", log=tmp_path / "log") as server:
        os.kill(server.process.pid, signal.SIGTERM)
        wait_for(lambda: probe(server, "/readyz")[0] == 503)
        os.kill(server.process.pid, signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0


def test_a_silent_client_does_not_keep_it_from_stopping(policies: Path, tmp_path: Path) -> None:
    with (
        RunningServer(policies, log=tmp_path / "log") as server,
        Connection(server.port, server.ca) as half,
        Connection(server.port, server.ca) as idle,
    ):
        half.send(request(body(), target="/mutate?timeout=1s")[:-1])
        assert idle.ask(request(body())).code == 200
        os.kill(server.process.pid, signal.SIGTERM)
        assert half.answer().code == 408
        assert server.process.wait(PATIENCE) == 0


def fails(*options: str) -> str:
    """Standard error of a `serve` that must end at once with exit code 2."""
    command = [sys.executable, "-m", "webhook", "serve", "--host", "127.0.0.1", "--probe-port", "0", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]
    assert said
    return said[-1]


@pytest.mark.parametrize("option", ["--port", "--probe-port"])
def test_a_port_that_is_taken(policies: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = fails("--policies", str(policies), "--port", "0", option, str(port))
    assert f"{option}: cannot listen on 127.0.0.1 port {port}: Address already in use" in said


def test_a_host_that_is_not_ours(policies: Path) -> None:
    assert "cannot listen on 192.0.2.1" in fails("--policies", str(policies), "--host", "192.0.2.1")


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    assert "nowhere" in fails("--policies", str(tmp_path / "nowhere"))


def test_certificates_that_cannot_be_served(policies: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = throwaway.make(tmp_path / "one"), throwaway.make(tmp_path / "two")
    start = ("--policies", str(policies), "--port", "0", "--tls-cert", str(one.certificate), "--tls-key")
    assert "do not belong together" in fails(*start, str(two.key))
    two.key.write_text("nothing")
    assert f"key {two.key} are no unencrypted PEM files" in fails(*start, str(two.key))


def test_a_certificate_is_replaced_without_losing_a_connection(policies: Path, tmp_path: Path) -> None:
    made = throwaway.make(tmp_path)
    old = tmp_path / "old.crt"
    old.write_bytes(made.ca.read_bytes())
    options = ("--tls-cert", str(made.certificate), "--tls-key", str(made.key))
    with (
        RunningServer(policies, *options, log=tmp_path / "log") as server,
        Connection(server.port, old) as kept,
    ):
        assert kept.ask(request(body())).code == 200
        throwaway.make(tmp_path)

        def renewed() -> bool:
            try:
                with Connection(server.port, made.ca) as fresh:
                    return fresh.ask(request(body())).code == 200
            except ssl.SSLCertVerificationError:
                return False

        wait_for(renewed)
        assert kept.ask(request(body())).code == 200
        made.key.write_text("broken")
        wait_for(lambda: "spark_webhook_certificate_broken 1.0" in server.probe("/metrics"))
        assert "the newest files can't be used" in server.probe("/readyz")
        assert renewed()


def test_a_log_that_nobody_reads_does_not_stop_the_server(tmp_path: Path) -> None:
    folder, pipe = tmp_path / "policies", tmp_path / "log"
    folder.mkdir()
    (folder / "policy.yaml").write_text(policy("one", "ONE"))
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with RunningServer(folder, log=pipe) as server, Connection(server.port, server.ca) as connection:
            # some 300 bytes of log each, and a pipe takes 64 KiB
            for _ in range(1000):
                assert connection.ask(request(body())).code == 200
            assert probe(server, "/healthz") == (200, "ok\n")
    finally:
        os.close(reader)
