"""What bad input gets: a Status object, never a traceback, and the next request is served as ever."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
from typing import Any

import pytest

from tests import corpus
from tests.http import policies
from tests.http.wire import HEAD, JSON_TYPE, PATIENCE, Answer, Connection, chunked, request
from webhook.running import RunningServer


@pytest.fixture(autouse=True)
def unharmed(server: RunningServer) -> Any:
    """Whatever a test of this module does: the log stays free of errors and the next request is answered."""
    logged = len(server.log_lines())
    yield
    with Connection(server.port, server.ca) as fresh:
        assert "patch" in fresh.ask(request(policies.body())).json["response"]
    lines = [json.loads(line) for line in server.log_lines()[logged:]]
    assert [line for line in lines if line["level"] == "error" or "traceback" in line] == []


def assert_status(answer: Answer, code: int, *words: str) -> None:
    assert answer.code == code
    assert answer.headers["content-type"] == "application/json"
    status = answer.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Failure")
    assert status["code"] == code
    assert status["reason"].isalpha()
    for word in words:
        assert word in status["message"]


def changed(path: str, value: Any) -> bytes:
    """The body of a driver's review in which one field below `request` is another value; ... removes it."""
    review = policies.review()
    *parents, last = path.split(".")
    holder: Any = review["request"]
    for key in parents:
        holder = holder[int(key)] if isinstance(holder, list) else holder[key]
    if value is ...:
        del holder[last]
    else:
        holder[last] = value
    return corpus.body(review)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


NO_REVIEW = {
    "empty": (b"", "empty"),
    "white space": (b" \n", "JSON"),
    "not JSON": (b"kind: AdmissionReview", "JSON"),
    "cut off": (policies.body()[:-20], "JSON"),
    "two documents": (policies.body() * 2, "JSON"),
    "byte order mark": (b"\xef\xbb\xbf" + policies.body(), "byte order mark"),
    "UTF-16": (policies.body().decode().encode("utf-16"), "JSON"),
    "invalid UTF-8": (policies.body().replace(b"spark-kubernetes-driver", b"spark\xff"), "UTF-8"),
    "lone surrogate": (policies.body().replace(b"spark-kubernetes-driver", b"\\ud800"), "surrogate"),
    "NaN": (b'{"a": NaN}', "JSON"),
    "a number too large": (b'{"a": 1e999}', "JSON"),
    "deep lists": (b"[" * 100_000 + b"]" * 100_000, "JSON"),
    "deep objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "JSON"),
    "null": (b"null", "AdmissionReview"),
    "a list": (b"[]", "AdmissionReview"),
    "a string": (b'"AdmissionReview"', "AdmissionReview"),
    "an empty object": (b"{}", "admission.k8s.io/v1"),
    "a pod": (json.dumps(policies.review()["request"]["object"]).encode(), "not AdmissionReview"),
    "v1beta1": (
        policies.body().replace(b'"admission.k8s.io/v1"', b'"admission.k8s.io/v1beta1"'),
        "admissionReviewVersions: [v1]",
    ),
    "another kind": (
        policies.body().replace(b'"AdmissionReview"', b'"ConversionReview"'),
        "ConversionReview",
    ),
    "kind a list": (policies.body().replace(b'"AdmissionReview"', b"[]"), "AdmissionReview"),
    "no request": (b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}', "request is missing"),
    "request null": (
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": null}',
        "request is missing",
    ),
    "request a list": (
        b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": []}',
        "request is a list",
    ),
    "no uid": (changed("uid", ...), "request.uid is missing"),
    "uid empty": (changed("uid", ""), "request.uid is empty"),
    "uid a number": (changed("uid", 7), "request.uid is a number"),
    "no operation": (changed("operation", ...), "request.operation is missing"),
    "no object": (changed("object", ...), "request.object is missing"),
    "object null": (changed("object", None), "request.object is missing"),
    "object a list": (changed("object", []), "request.object is a list"),
    "object a string": (changed("object", "pod"), "request.object is a string"),
    "namespace a number": (changed("namespace", 1), "request.namespace is a number"),
    "kind a string": (changed("kind", "Pod"), "request.kind is a string"),
    "dryRun a string": (changed("dryRun", "true"), "request.dryRun is a string"),
}


@pytest.mark.parametrize(("body", "word"), NO_REVIEW.values(), ids=NO_REVIEW.keys())
def test_what_is_no_review_is_a_bad_request(connection: Connection, body: bytes, word: str) -> None:
    answer = connection.ask(request(body))
    assert_status(answer, 400, word)
    assert connection.ask(request(policies.body())).code == 200, "the connection can still be used"


NO_POD: dict[str, tuple[str, Any]] = {
    "an empty object": ("object", {}),
    "metadata null": ("object.metadata", None),
    "metadata a list": ("object.metadata", []),
    "labels a list": ("object.metadata.labels", ["spark-role"]),
    "no spec": ("object.spec", ...),
    "spec null": ("object.spec", None),
    "spec a string": ("object.spec", "x"),
    "containers a string": ("object.spec.containers", "x"),
    "containers a map": ("object.spec.containers", {"name": "x"}),
    "a container null": ("object.spec.containers", [None]),
    "a container a string": ("object.spec.containers", ["spark"]),
    "env a map": ("object.spec.containers.0.env", {"A": "b"}),
    "env of strings": ("object.spec.containers.0.env", ["A=b"]),
    "mounts a string": ("object.spec.containers.0.volumeMounts", "x"),
    "volumes a map": ("object.spec.volumes", {}),
    "volumes of null": ("object.spec.volumes", [None]),
}


@pytest.mark.parametrize(("path", "value"), NO_POD.values(), ids=NO_POD.keys())
def test_what_is_no_pod_is_a_bad_request(connection: Connection, path: str, value: Any) -> None:
    answer = connection.ask(request(changed(path, value)))
    assert_status(answer, 400, "object")
    assert connection.ask(request(policies.body())).code == 200, "the connection can still be used"


ODD_PODS: dict[str, tuple[str, Any]] = {
    "another kind of object": (
        "object",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "x"}, "data": {}},
    ),
    "labels null": ("object.metadata.labels", None),
    "annotations null": ("object.metadata.annotations", None),
    "no containers": ("object.spec.containers", ...),
    "containers null": ("object.spec.containers", None),
    "containers empty": ("object.spec.containers", []),
    "env null": ("object.spec.containers.0.env", None),
    "mounts null": ("object.spec.containers.0.volumeMounts", None),
    "volumes null": ("object.spec.volumes", None),
    "tolerations null": ("object.spec.tolerations", None),
    "deep unknown fields": ("object.spec.future", nested(900)),
    "role a number": ("object.metadata.labels.spark-role", 7),
    "a label a list": ("object.metadata.labels.team", ["strict"]),
    "a label null": ("object.metadata.labels.team", None),
    "an annotation a map": ("object.metadata.annotations", {"a": {}, "sparkwebhook.dev/exclude": ["x"]}),
    "node selector a list": ("object.spec.nodeSelector", []),
    "tolerations a map": ("object.spec.tolerations", {}),
    "init containers a string": ("object.spec.initContainers", "x"),
    "role a list": ("object.metadata.labels.spark-role", ["driver"]),
    "a huge number": ("object.spec.priority", 10**40),
    "no namespace": ("namespace", ...),
    "no kind": ("kind", ...),
    "a name of another plane": ("object.metadata.name", "\U0001f600" * 200),
}


@pytest.mark.parametrize(("path", "value"), ODD_PODS.values(), ids=ODD_PODS.keys())
def test_an_odd_pod_is_decided_on_or_refused(connection: Connection, path: str, value: Any) -> None:
    answer = connection.ask(request(changed(path, value)))
    if answer.code == 200:
        assert answer.json["response"]["allowed"] is True
    else:
        assert_status(answer, 400, "object")


@pytest.mark.parametrize(
    "content_type",
    [None, "text/plain", "application/yaml", "application/x-www-form-urlencoded", "json", "", ";;;", "a/b/c"],
)
def test_another_content_type(connection: Connection, content_type: str | None) -> None:
    header = None if content_type is None else f"Content-Type: {content_type}"
    assert_status(connection.ask(request(policies.body(), content_type=header)), 415, "application/json")


@pytest.mark.parametrize(
    "content_type", ["application/json; charset=utf-8", "Application/JSON", "application/json ; a=b"]
)
def test_the_content_type_in_other_words(connection: Connection, content_type: str) -> None:
    answer = connection.ask(request(policies.body(), content_type=f"Content-Type: {content_type}"))
    assert answer.code == 200


@pytest.mark.parametrize("target", ["/", "/mutate/", "/mutatex", "/%6dutate", "//[", "/healthz", "/metrics"])
def test_another_path(connection: Connection, target: str) -> None:
    assert_status(connection.ask(request(policies.body(), target=target)), 404, "/mutate")


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
def test_another_method(connection: Connection, method: str) -> None:
    answer = connection.ask(request(policies.body()).replace(b"POST", method.encode(), 1))
    assert_status(answer, 405, "POST")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "query",
    ["", "?timeout=", "?timeout=soon", "?timeout=-5s", "?timeout=0s", "?timeout=1h", "?a=b&timeout=1m5.5s"],
)
def test_any_timeout_is_taken(connection: Connection, query: str) -> None:
    assert connection.ask(request(policies.body(), target=f"/mutate{query}")).code == 200


def test_a_body_of_20_mib(connection: Connection) -> None:
    assert_status(connection.ask(request(b'{"a": "' + b"x" * (20 << 20) + b'"}')), 413)


def test_a_huge_body_is_refused_before_it_is_sent(connection: Connection) -> None:
    assert_status(connection.ask(request(b"{", length=1 << 40)), 413)


def test_a_huge_body_is_refused_while_the_client_waits_to_be_asked(connection: Connection) -> None:
    assert_status(connection.ask(request(b"", "Expect: 100-continue", length=20 << 20)), 413)


def test_a_client_that_waits_to_be_asked_is_asked(connection: Connection) -> None:
    body = policies.body()
    asked = connection.ask(request(b"", "Expect: 100-continue", length=len(body)))
    assert asked.code == 100
    assert connection.ask(body).code == 200


def test_an_endless_chunked_body(connection: Connection) -> None:
    connection.send(chunked(b" " * (8 << 20))[:-5])
    assert_status(connection.answer(), 413)


def test_a_chunked_review(connection: Connection) -> None:
    body = policies.body()
    assert connection.ask(chunked(body[:10], body[10:5000], body[5000:])).code == 200
    assert connection.ask(request(body)).code == 200


def test_a_body_in_small_pieces(connection: Connection) -> None:
    data = request(policies.body())
    for start in range(0, len(data), 700):
        connection.send(data[start : start + 700])
    assert connection.answer().code == 200


def test_bad_framing_of_chunks(connection: Connection) -> None:
    good = chunked(policies.body())
    assert_status(connection.ask(good[: good.index(b"\r\n\r\n") + 4] + b"zz\r\n{}\r\n0\r\n\r\n"), 400)


def test_bad_framing_behind_a_refusal(connection: Connection) -> None:
    head = HEAD.format(target="/nothing") + JSON_TYPE + "\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.send(head.encode() + b"3\r\nabc\r\n")
    assert_status(connection.answer(), 404)
    connection.send(b"zz\r\n\r\n")
    connection.at_end()


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x-unknown", "gzip, gzip"])
def test_a_compressed_body(connection: Connection, coding: str) -> None:
    answer = connection.ask(request(gzip.compress(policies.body()), f"Content-Encoding: {coding}"))
    assert_status(answer, 415, "uncompressed")


def test_a_bomb_is_not_inflated(connection: Connection) -> None:
    bomb = gzip.compress(b"0" * (100 << 20))
    assert_status(connection.ask(request(bomb, "Content-Encoding: gzip")), 415)


def test_a_slow_body_is_given_up_within_the_deadline_of_its_request(server: RunningServer) -> None:
    data = request(policies.body(), target="/mutate?timeout=1s")
    with (
        Connection(server.port, server.ca) as slow,
        Connection(server.port, server.ca) as other,
    ):
        slow.send(data[:-1])
        for _ in range(20):
            assert other.ask(request(policies.body())).code == 200, "others are not kept waiting"
        assert_status(slow.answer(), 408, "in time")
        assert slow.at_end()


def test_slow_bodies_hold_no_place(server: RunningServer) -> None:
    data = request(policies.body(), target="/mutate?timeout=2s")
    opened = [Connection(server.port, server.ca) for _ in range(60)]
    try:
        for slow in opened:
            slow.send(data[:-1])
        with Connection(server.port, server.ca) as other:
            assert other.ask(request(policies.body())).code == 200
        for slow in opened:
            slow.send(data[-1:])
        assert {slow.answer().code for slow in opened} == {200}
    finally:
        for slow in opened:
            slow.close()


def test_pipelined_requests_are_answered_in_order(connection: Connection) -> None:
    connection.send(request(policies.body()) + request(b"{}") + request(policies.body()))
    assert [connection.answer().code for _ in range(3)] == [200, 400, 200]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"POST /mutate HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nabc",
        b"POST /mutate HTTP/1.1\r\nHost: " + b"x" * 20_000 + b"\r\n\r\n",
        b"POST /mutate HTTP/1.1\r\n" + b"X-A: b\r\n" * 2000 + b"\r\n",
        b"POST /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
    ],
    ids=[
        "bytes",
        "HTTP/2",
        "length",
        "two lengths",
        "both",
        "long header",
        "headers",
        "long path",
    ],
)
def test_what_is_no_http(connection: Connection, data: bytes) -> None:
    connection.send(data)
    assert_status(connection.answer(), 400)
    assert connection.at_end()


def test_http_1_0_is_answered_and_closed(connection: Connection) -> None:
    assert connection.ask(request(policies.body()).replace(b"HTTP/1.1", b"HTTP/1.0", 1)).code == 200
    assert connection.at_end()


def test_a_client_that_asks_to_close(connection: Connection) -> None:
    answer = connection.ask(request(policies.body(), "Connection: close"))
    assert (answer.code, answer.headers["connection"]) == (200, "close")
    assert connection.at_end()


def test_a_client_that_goes_away_in_the_middle(server: RunningServer) -> None:
    data = request(policies.body())
    for end in (10, 200, len(data) - 100, len(data)):
        with Connection(server.port, server.ca) as leaving:
            leaving.send(data[:end])


def test_a_client_that_shuts_down_its_side(server: RunningServer) -> None:
    with Connection(server.port, server.ca) as leaving:
        leaving.send(request(policies.body())[:-100])
        leaving.socket.shutdown(socket.SHUT_WR)
        assert leaving.at_end()


@pytest.mark.parametrize(
    "said", [b"", b"POST /mutate HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"\0" * 600]
)
def test_plain_tcp_on_the_tls_port(server: RunningServer, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain:
        plain.sendall(said)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_versions(server: RunningServer, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=str(server.ca))
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        assert secured.selected_alpn_protocol() in (None, "http/1.1")
        assert secured.session is None or not secured.session.has_ticket


def test_a_client_that_does_not_trust_us(server: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as plain:
        context = ssl.create_default_context()
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="localhost")
