"""The tests' own tools do what the tests believe: on real data, since nothing else would notice."""

from __future__ import annotations

import json
import random

import pytest

from tests import corpus, kubernetes_schema

# Another webhook's container was added after the service account's token had been mounted in the others.
WITHOUT_TOKEN = "special/sidecar-before-us-1"


@pytest.mark.parametrize("name", [name for name in corpus.pod_reviews() if name != WITHOUT_TOKEN])
def test_what_an_api_server_has_defaulted_is_complete(name: str) -> None:
    request = corpus.review(name)["request"]

    assert corpus.defaulted(request["object"], request["namespace"]) == request["object"]


def test_defaults_mount_the_token_where_it_is_missing() -> None:
    pod = corpus.defaulted(corpus.review(WITHOUT_TOKEN)["request"]["object"], "etl")

    for container in pod["spec"]["containers"]:
        assert corpus.TOKEN_PATH in [mount["mountPath"] for mount in container["volumeMounts"]]


def test_a_body_has_the_bytes_of_the_wire() -> None:
    recorded = (corpus.CAPTURES / "reviews" / "special" / "exact-bytes-of-a-body.txt").read_bytes()

    assert corpus.body(json.loads(recorded)) == recorded


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5", "500m"),
        ("1.5G", "1500M"),
        ("1.0", "1"),
        ("5Gi", "5Gi"),
    ],
)
def test_quantities_are_written_as_an_api_server_does(text: str, short: str) -> None:
    assert corpus.short_quantity(text) == short


def test_a_perturbed_pod_is_another_list_order_of_the_same_valid_pod() -> None:
    before = corpus.review("4.3.0/cluster-podtemplate-driver")["request"]["object"]

    after = corpus.perturbed(before, random.Random(1))

    assert kubernetes_schema.problems(after) == []
    assert after["spec"]["volumes"] != before["spec"]["volumes"]
    for field in ("volumes", "tolerations"):
        assert sorted(map(str, after["spec"][field])) == sorted(map(str, before["spec"][field]))
    names = [container["name"] for container in after["spec"]["containers"]]
    assert sorted(names) == ["log-shipper", "main-driver", corpus.SIDECAR, "proxy"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("volumes", [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}], "volumes: 'a' twice"),
        ("volumes", [{"name": "a.b", "emptyDir": {}}], "bad name 'a.b'"),
        ("volumes", [{"name": "a", "emptyDir": {}, "secret": {}}], "more than one source"),
        ("nodeSelector", {"pool": "a b"}, "bad value 'a b'"),
        ("tolerations", [{"key": "a", "operator": "Exists", "value": "b"}], "Exists takes no value"),
        ("volumes", "text", "is not of type"),
        ("invented", 1, "Additional properties"),
    ],
)
def test_an_invalid_pod_is_found_out(path: str, value: object, message: str) -> None:
    pod = corpus.review("4.3.0/cluster-bare-driver")["request"]["object"]
    assert kubernetes_schema.problems(pod) == []

    pod["spec"][path] = value

    assert any(message in problem for problem in kubernetes_schema.problems(pod))


def test_a_variable_before_what_it_uses_is_found_out() -> None:
    env = [{"name": "A", "value": "$(B) $$(C)"}, {"name": "B", "value": "1"}, {"name": "C", "value": "2"}]

    assert kubernetes_schema.used_before_set(env, {"B", "C"}) == ["A: B"]
