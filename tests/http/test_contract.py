"""The wire contract, on every recorded review, over verified TLS."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import jsonpatch
import pytest

from tests import corpus
from tests.http import policies
from tests.http.wire import Connection, request
from webhook.running import RunningServer


@pytest.fixture(scope="module")
def kept(server: RunningServer) -> Iterator[Connection]:
    """One connection for all reviews, as an API server keeps it."""
    with Connection(server.port, server.ca) as opened:
        yield opened


def ask(connection: Connection, review: dict[str, Any]) -> dict[str, Any]:
    answer = connection.ask(request(corpus.body(review)))
    assert answer.code == 200
    assert answer.headers["content-type"] == "application/json"
    assert (answer.json["apiVersion"], answer.json["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = answer.json["response"]
    assert response["uid"] == review["request"]["uid"]
    return response


@pytest.mark.parametrize("name", corpus.REVIEWS)
def test_each_recorded_review_is_answered(kept: Connection, name: str) -> None:
    review = corpus.review(name)
    response = ask(kept, review)
    assert response["allowed"] is True
    if corpus.creates_a_pod(review):
        assert response["patchType"] == "JSONPatch"
        patch = json.loads(base64.b64decode(response["patch"], validate=True))
        jsonpatch.JsonPatch(patch).apply(review["request"]["object"], in_place=True)
    else:
        assert "patch" not in response
        assert "patchType" not in response


@pytest.mark.parametrize("name", corpus.REVIEWS)
def test_audit_annotations_are_what_an_api_server_keeps(kept: Connection, name: str) -> None:
    annotations = ask(kept, corpus.review(name))["auditAnnotations"]
    assert annotations["decision"]
    for key, value in annotations.items():
        assert key.isalpha()
        assert isinstance(value, str)
        assert len(value) <= 256


def test_a_body_exactly_as_it_came(kept: Connection) -> None:
    body = (corpus.CAPTURES / "reviews/special/exact-bytes-of-a-body.txt").read_bytes()
    answer = kept.ask(request(body))
    assert answer.json["response"]["uid"] == json.loads(body)["request"]["uid"]


def test_the_uid_is_echoed_exactly(kept: Connection) -> None:
    review = policies.review()
    review["request"]["uid"] = 'not a uuid "\\ \u2028 ü 😀'
    assert ask(kept, review)["uid"] == review["request"]["uid"]


def test_a_dry_run_gets_the_same_answer(kept: Connection) -> None:
    review = policies.review()
    answers = []
    for dry in (False, True):
        review["request"]["dryRun"] = dry
        answers.append(ask(kept, review))
    assert "patch" in answers[0]
    assert answers[0] == answers[1]


def test_a_denial_is_a_decision_with_code_and_reason(kept: Connection) -> None:
    response = ask(kept, policies.rejected())
    assert response["allowed"] is False
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert "strict" in response["status"]["message"]
    assert policies.SECRET_VALUE not in response["status"]["message"]
    assert "patch" not in response
    assert "patchType" not in response


@pytest.mark.parametrize("role", [None, "", "history-server"])
def test_a_pod_of_no_spark_role_is_left_alone(kept: Connection, role: str | None) -> None:
    review = policies.review()
    labels = review["request"]["object"]["metadata"]["labels"]
    del labels["spark-role"]
    if role is not None:
        labels["spark-role"] = role
    response = ask(kept, review)
    assert response["allowed"] is True
    assert "patch" not in response


@pytest.mark.parametrize("namespace", ["kube-system", "spark-webhook"])
def test_system_namespaces_are_left_alone(kept: Connection, namespace: str) -> None:
    review = policies.review()
    review["request"]["namespace"] = namespace
    assert "patch" not in ask(kept, review)


def test_unknown_fields_of_the_review_are_ignored(kept: Connection) -> None:
    review = policies.review()
    review["future"] = review["request"]["future"] = {"a": [1]}
    assert "patch" in ask(kept, review)


def test_many_connections_at_once(server: RunningServer) -> None:
    data = request(policies.body())
    opened = [Connection(server.port, server.ca) for _ in range(50)]
    try:
        for connection in opened:
            connection.send(data)
        assert [connection.answer().code for connection in opened] == [200] * 50
        assert opened[0].ask(data).code == 200
    finally:
        for connection in opened:
            connection.close()
