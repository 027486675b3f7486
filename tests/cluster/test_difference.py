"""The comparison of pods leaves nothing aside but what is another in each run."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import corpus
from tests.cluster.difference import comparable, difference
from tests.cluster.objects import Json

CONTAINER = "spec.containers[spark-kubernetes-executor]"


def _pod(number: str = "") -> Json:
    pod: Json = corpus.review(f"4.3.0/cluster-bare-executor{number}")["request"]["object"]
    return pod


def _container(pod: Json) -> Json:
    container: Json = pod["spec"]["containers"][0]
    return container


def test_two_executors_differ_by_their_numbers() -> None:
    changed = {
        "metadata.labels.spark-exec-id": ["1", "2"],
        f"{CONTAINER}.env[SPARK_EXECUTOR_ID].value": ["1", "2"],
    }
    found = difference(comparable(_pod()), comparable(_pod("-2")))
    assert found == {"added": None, "changed": changed}


def test_additions_are_a_partial_pod() -> None:
    pod = _pod()
    pod["metadata"]["annotations"] = {"a": "b"}
    variable, mount = {"name": "A", "value": "b"}, {"name": "v", "mountPath": "/v"}
    _container(pod)["env"].insert(3, variable)
    _container(pod)["volumeMounts"].append(mount)
    container = {"name": "spark-kubernetes-executor", "env": [variable], "volumeMounts": [mount]}
    added = {"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": [container]}}
    assert difference(comparable(_pod()), comparable(pod)) == {"added": added, "changed": {}}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda pod: pod["spec"].pop("restartPolicy"), "spec.restartPolicy"),
        (lambda pod: pod["spec"]["volumes"].pop(), "spec.volumes"),
        (lambda pod: _container(pod)["env"].reverse(), f"{CONTAINER}.env"),
        (lambda pod: _container(pod)["env"].append({"name": "SPARK_USER"}), f"{CONTAINER}.env"),
        (lambda pod: _container(pod)["args"].append("more"), None),
        (lambda pod: _container(pod).update(image="other"), f"{CONTAINER}.image"),
    ],
)
def test_nothing_else_goes_unseen(change: Callable[[Json], None], path: str | None) -> None:
    pod = _pod()
    change(pod)
    found = difference(comparable(_pod()), comparable(pod))
    assert list(found["changed"]) == [path] if path else found["added"]
