"""Pods created in a real cluster with the product installed: what the API server stores in the end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, STATUS, Json, cluster_policy, create, policy, spark_env
from tests.cluster.other_webhook import SIDECAR, OtherWebhook
from tests.cluster.proxy import Proxy
from tests.cluster.webhook import Webhook

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE, OTHER, CLOSED = "admission", "admission-other", "admission-closed"


@pytest.fixture(scope="module", autouse=True)
def _policies(cluster: ControlPlane, webhook: Webhook) -> Iterator[None]:
    cluster.namespace(NAMESPACE, {**OPTED_IN, "stage": "prod"})
    cluster.namespace(OTHER, {**OPTED_IN, "stage": "test", "sidecars": "yes"})
    cluster.namespace(CLOSED, {})
    cluster.apply(
        cluster_policy(
            "admission-all",
            match={"namespaceSelector": {"matchExpressions": [{"key": "stage", "operator": "Exists"}]}},
            common={
                "secrets": [{"name": "lake", "mountPath": "/etc/secrets/lake", "containers": "All"}],
                "env": [
                    {"name": "STAGE", "value": "{{NAMESPACE_LABEL:stage}}", "containers": "All"},
                    {"name": "JAVA_TOOL_OPTIONS", "value": "-Da=b", "join": " "},
                ],
                "tolerations": [{"key": "spark", "operator": "Exists"}],
            },
            driver={"nodeSelector": {"pool": "drivers"}},
        ),
        policy(OTHER, "team", common={"labels": {"team": "etl"}}),
    )
    webhook.wait_for_policies(2)
    yield
    cluster.kubectl("delete", "clustersparkpodpolicy", "admission-all")
    cluster.kubectl("delete", "sparkpodpolicy", "-n", OTHER, "team")


@pytest.mark.older
def test_pods_get_what_the_policies_say(cluster: ControlPlane) -> None:
    pods = [create(cluster, NAMESPACE, pod) for pod in (objects.driver(), objects.executor())]
    for pod, selector in zip(pods, ({"pool": "drivers"}, None), strict=True):
        env = spark_env(pod)
        assert env["STAGE"] == "prod"
        assert env["JAVA_TOOL_OPTIONS"] == "-Da=b"
        assert pod["spec"].get("nodeSelector") == selector
        assert {"key": "spark", "operator": "Exists"} in pod["spec"]["tolerations"]
        status = json.loads(pod["metadata"]["annotations"][STATUS])
        assert [entry["name"] for entry in status["policies"]] == ["admission-all"]
        assert "team" not in pod["metadata"]["labels"]
    assert create(cluster, OTHER, objects.driver())["metadata"]["labels"]["team"] == "etl"


def test_a_namespace_without_the_label_is_untouched(cluster: ControlPlane, webhook: Webhook) -> None:
    before = webhook.admissions()
    sent = objects.driver()
    stored = create(cluster, CLOSED, sent)
    assert spark_env(stored) == spark_env(sent)
    assert STATUS not in stored["metadata"].get("annotations", {})
    assert webhook.admissions() == before


def test_a_pod_that_is_not_sparks_never_comes_here(cluster: ControlPlane, webhook: Webhook) -> None:
    before = webhook.admissions()
    pod = objects.driver()
    del pod["metadata"]["labels"]["spark-role"]
    assert STATUS not in create(cluster, NAMESPACE, pod)["metadata"].get("annotations", {})
    assert webhook.admissions() == before


def test_a_dry_run_shows_the_change_and_writes_nothing(cluster: ControlPlane) -> None:
    pod = objects.driver()
    shown = json.loads(
        cluster.kubectl(
            "apply", "--dry-run=server", "-n", NAMESPACE, "-f", "-", "-o", "json", stdin=json.dumps(pod)
        ).stdout
    )
    assert spark_env(shown)["STAGE"] == "prod"
    found = cluster.kubectl("get", "pod", "-n", NAMESPACE, pod["metadata"]["name"], check=False)
    assert "NotFound" in found.stderr


def test_a_pod_in_a_namespace_made_a_moment_ago(cluster: ControlPlane) -> None:
    """Its labels decide: a replica that has not heard of the namespace asks before it answers."""
    for number in range(5):
        name = f"admission-new-{number}"
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {**OPTED_IN, "stage": "new"}},
        }
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name},
        }
        pod = objects.driver()
        pod["metadata"]["namespace"] = name
        documents = {"apiVersion": "v1", "kind": "List", "items": [namespace, account, pod]}
        answer = cluster.kubectl("create", "-f", "-", "-o", "json", stdin=json.dumps(documents), check=False)
        created = next(item for item in _documents(answer.stdout) if item["kind"] == "Pod")
        assert spark_env(created)["STAGE"] == "new"


def _documents(text: str) -> list[Json]:
    """kubectl prints a List, or one JSON document after the other."""
    decoder, found, position = json.JSONDecoder(), [], 0
    while position < len(text.rstrip()):
        value, position = decoder.raw_decode(text, position)
        while position < len(text) and text[position].isspace():
            position += 1
        found += value.get("items", [value])
    return found


@pytest.mark.parametrize("name", ["a-sidecars", "z-sidecars"])
@pytest.mark.parametrize("make", [objects.driver, objects.executor])
def test_another_webhook_before_or_after_ours(
    cluster: ControlPlane, tmp_path: Path, name: str, make: Any
) -> None:
    alone = create(cluster, OTHER, make(), "--dry-run=server")
    with OtherWebhook(cluster, name, ("sidecars", "yes"), tmp_path):
        objects.until(
            "the other webhook is called",
            lambda: SIDECAR in _containers(create(cluster, OTHER, make(), "--dry-run=server")),
        )
        both = create(cluster, OTHER, make())
    sidecar = _containers(both)[SIDECAR]
    assert [item["value"] for item in sidecar["env"] if item["name"] == "STAGE"] == ["test"]
    assert "/etc/secrets/lake" in [mount["mountPath"] for mount in sidecar["volumeMounts"]]
    both["spec"]["containers"].remove(sidecar)
    assert _comparable(both) == _comparable(alone)


def _containers(pod: Json) -> dict[str, Json]:
    return {container["name"]: container for container in pod["spec"]["containers"]}


def _comparable(value: Any) -> Any:
    """A pod whose lists are in no order, without what is another with each pod."""
    text = json.dumps(value, sort_keys=True)
    pod = json.loads(text)
    for field in ("name", "uid", "resourceVersion", "creationTimestamp", "managedFields"):
        pod["metadata"].pop(field, None)
    token = next(v["name"] for v in pod["spec"]["volumes"] if v["name"].startswith("kube-api-access-"))
    return _unordered(json.loads(json.dumps(pod).replace(token, "kube-api-access")))


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return sorted(
            (_unordered(inner) for inner in value), key=lambda inner: json.dumps(inner, sort_keys=True)
        )
    return value


@pytest.mark.older
def test_a_policy_that_kubectl_applied_is_in_force_within_a_second(cluster: ControlPlane) -> None:
    """Whichever replica answers: they take connections in turn, so several pods are asked for."""
    for number in range(3):
        value = f"value-{number}"
        document = policy(NAMESPACE, "changing", common={"env": [{"name": "CHANGING", "value": value}]})
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(document))
        applied = time.monotonic()

        def seen(value: str = value) -> bool:
            pods = (create(cluster, NAMESPACE, objects.driver(), "--dry-run=server") for _ in range(3))
            return all(spark_env(pod).get("CHANGING") == value for pod in pods)

        while True:
            asked = time.monotonic() - applied
            if seen():
                break
            assert asked < 1.0, f"asked {asked:.2f} s after kubectl apply ended, and the old one is in force"
    cluster.kubectl("delete", "sparkpodpolicy", "-n", NAMESPACE, "changing")


def test_an_api_server_that_restarts_takes_no_policy_along(cluster: ControlPlane, webhook: Webhook) -> None:
    cluster.restart_api_server(down=1.0)
    assert spark_env(create(cluster, NAMESPACE, objects.driver()))["STAGE"] == "prod"
    extra = policy(NAMESPACE, "later", common={"env": [{"name": "LATER", "value": "yes"}]})
    cluster.apply(extra)
    objects.until(
        "a policy of after the restart",
        lambda: "LATER" in spark_env(create(cluster, NAMESPACE, objects.driver(), "--dry-run=server")),
        seconds=20,
    )
    cluster.kubectl("delete", "sparkpodpolicy", "-n", NAMESPACE, "later")


def test_the_submitter_sees_warnings(cluster: ControlPlane) -> None:
    pod = objects.driver()
    pod["spec"]["nodeSelector"] = {"pool": "mine"}
    said = cluster.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=json.dumps(pod)).stderr
    assert "Warning: " in said
    assert "nodeSelector[pool]" in said


def test_a_server_that_is_not_ready_sends_the_api_server_back(
    cluster: ControlPlane, webhook: Webhook, tmp_path: Path
) -> None:
    """503 with Retry-After: the API server asks again, and the pod gets everything that it should have."""
    with Proxy(cluster.url) as proxy, webhook.stopped(), ThreadPoolExecutor(1) as pool:
        proxy.hold()
        account = cluster.kubeconfig_for("spark-webhook", "spark-webhook")
        replica = webhook.replica(kubeconfig=proxy.kubeconfig(account, tmp_path), tls_from_files=True)
        replica.start(wait=False)
        try:
            created = pool.submit(create, cluster, NAMESPACE, objects.driver())
            errors = "spark_webhook_http_errors_total"
            objects.until("it is turned away", lambda: replica.metric(errors, code="503"))
            assert not replica.ready()
            proxy.release()
            assert spark_env(created.result(30))["STAGE"] == "prod"
        finally:
            replica.stop()


def test_an_admission_asks_nobody(cluster: ControlPlane, webhook: Webhook, tmp_path: Path) -> None:
    """The server is cut off from the API server, which still calls it: everything goes on."""
    with Proxy(cluster.url) as proxy, webhook.stopped():
        account = cluster.kubeconfig_for("spark-webhook", "spark-webhook")
        replica = webhook.replica(kubeconfig=proxy.kubeconfig(account, tmp_path))
        replica.start()
        try:
            proxy.hold()
            connected = "spark_webhook_watch_connected"
            objects.until("it is cut off", lambda: replica.metric(connected) == 0)
            sent = proxy.sent
            for make in (objects.driver, objects.executor) * 5:
                assert spark_env(create(cluster, NAMESPACE, make(), "--dry-run=server"))["STAGE"] == "prod"
            assert proxy.sent == sent
            assert replica.ready()
        finally:
            proxy.release()
            replica.stop()
