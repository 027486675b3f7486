"""Objects of the test cluster: recorded pods to create, policies, and waiting for what becomes of them."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypeVar

from tests import corpus
from tests.cluster.control_plane import ControlPlane
from webhook.kube.client import KubeClient

Json = dict[str, Any]
T = TypeVar("T")

STATUS = "sparkwebhook.dev/status"
OPTED_IN = {"sparkwebhook.dev/inject": "enabled"}
API_VERSION = "sparkwebhook.dev/v1alpha1"

_numbers = count(1)


def driver(**labels: str) -> Json:
    """A driver as spark-submit of Spark 4.3.0 sent it, under a name of its own, with further labels."""
    return _renamed(corpus.pod("4.3.0/cluster-bare-01"), labels)


def executor(**labels: str) -> Json:
    """An executor as a client-mode driver of Spark 4.3.0 sent it, likewise."""
    return _renamed(corpus.pod("4.3.0/client-no-driver-pod-04"), labels)


def _renamed(pod: Json, labels: dict[str, str]) -> Json:
    pod["metadata"]["name"] = f"spark-{next(_numbers)}"
    pod["metadata"]["labels"].update(labels)
    pod["spec"].pop("hostname", None)
    return pod


def create(cluster: ControlPlane, namespace: str, pod: Json, *options: str) -> Json:
    """Create the pod and return it as the API server answers it."""
    arguments = ("create", "-n", namespace, "-f", "-", "-o", "json", *options)
    answer: Json = json.loads(cluster.kubectl(*arguments, stdin=json.dumps(pod)).stdout)
    return answer


@asynccontextmanager
async def admin(cluster: ControlPlane) -> AsyncIterator[KubeClient]:
    """An administrator's client of the API server."""
    client = await KubeClient.connect(cluster.kubeconfig)
    try:
        yield client
    finally:
        await client.close()


def cluster_policy(name: str, **spec: Any) -> Json:
    """A ClusterSparkPodPolicy."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterSparkPodPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def policy(namespace: str, name: str, **spec: Any) -> Json:
    """A SparkPodPolicy."""
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": API_VERSION, "kind": "SparkPodPolicy", "metadata": metadata, "spec": spec}


def spark_env(pod: Json) -> dict[str, Any]:
    """The variables of a pod's Spark container, literal values only by value."""
    container = next(c for c in pod["spec"]["containers"] if c["name"].startswith("spark"))
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in container["env"]}


def until(what: str, ask: Callable[[], T | None], *, seconds: float = 10.0) -> tuple[T, float]:
    """The first true answer, and after how many seconds it came. Fails after so many."""
    start = time.monotonic()
    while True:
        answer = ask()
        took = time.monotonic() - start
        if answer:
            return answer, took
        assert took < seconds, f"{what}: not after {took:.1f} s"
        time.sleep(0.02)
