"""A big cluster: 1,000 policies and 500 namespaces, and admissions that go on meanwhile."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, Json, cluster_policy, policy
from tests.cluster.webhook import ROOT, Webhook
from webhook.kube.client import KubeClient

pytestmark = pytest.mark.xdist_group("cluster")

POLICIES, NAMESPACES = 1000, 500
SLOWEST = 100.0  # milliseconds


class Pulse:
    """Admissions all the while; afterwards `took` has the milliseconds of each."""

    def __init__(self) -> None:
        self.took: list[float] = []

    def __str__(self) -> str:
        took = sorted(self.took)
        median, most = took[len(took) // 2], took[int(len(took) * 0.99)]
        return f"{len(took)} admissions, p50 {median:.1f}, p99 {most:.1f}, slowest {took[-1]:.1f} ms"


@contextmanager
def pulse(webhook: Webhook) -> Iterator[Pulse]:
    secret = webhook.cluster.kubectl(
        "get", "secret", "-n", "spark-webhook", "spark-webhook-tls", "-o", "json"
    )
    ca = webhook.cluster.directory / "webhook-ca.crt"
    ca.write_bytes(base64.b64decode(json.loads(secret.stdout)["data"]["ca.crt"]))
    result = Pulse()
    command = [
        sys.executable,
        "-m",
        "tests.cluster.pulse",
        webhook.address,
        "spark-webhook.spark-webhook.svc",
    ]
    process = subprocess.Popen(
        [*command, str(ca)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield result
    finally:
        said, _ = process.communicate("")
    assert process.returncode == 0
    result.took = json.loads(said)


def test_a_big_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    report = []
    with ControlPlane() as cluster, Webhook(cluster) as webhook:
        replica = webhook.replicas[0]
        cluster.namespace("jobs", OPTED_IN)

        def loaded() -> bool:
            return replica.metric("spark_webhook_policies_loaded") == POLICIES

        with pulse(webhook) as creating:
            start = time.monotonic()
            asyncio.run(_fill(cluster))
            filled = time.monotonic() - start
            _, took = objects.until("all are in force", loaded, seconds=20)
        report.append(f"created in {filled:.1f} s, in force {took:.1f} s later; meanwhile {creating}")

        with pulse(webhook) as listing:
            cluster.restart_api_server()
            time.sleep(1.0)
            asyncio.run(_touch(cluster))
            objects.until(
                "they are listed again", lambda: not _troubles(replica.probe("/readyz")), seconds=30
            )
        report.append(f"listed again after a restart of the API server; meanwhile {listing}")

        start = time.monotonic()
        another = webhook.replica()
        another.start()
        report.append(f"a new replica is ready after {time.monotonic() - start:.1f} s")
        assert another.metric("spark_webhook_policies_loaded") == POLICIES
        another.stop()
        memory = replica.metric("spark_webhook_process_resident_memory_bytes") / 2**20
        report.append(f"resident memory {memory:.0f} MiB")
    with capsys.disabled():
        print("\n" + "\n".join(f"  {line}" for line in report))
    for measured in (creating, listing):
        assert max(measured.took) < SLOWEST, str(measured)


def _troubles(readyz: str) -> bool:
    return any(
        line.startswith(("sparkpodpolicies", "clustersparkpodpolicies", "namespaces"))
        for line in readyz.splitlines()
    )


async def _fill(cluster: ControlPlane) -> None:
    client = await KubeClient.connect(cluster.kubeconfig)
    at_once = asyncio.Semaphore(16)

    async def create(path: str, body: Json) -> None:
        async with at_once:
            await client.call("POST", path, body=body, seconds=30)

    names = [f"team-{number}" for number in range(NAMESPACES)]
    bodies = [{"metadata": {"name": name, "labels": {**OPTED_IN, "tier": name[-1]}}} for name in names]
    await asyncio.gather(*(create("/api/v1/namespaces", body) for body in bodies))
    api = "/apis/sparkwebhook.dev/v1alpha1"
    work = []
    for number in range(POLICIES):
        spec = _spec(number)
        if number % 2:
            spec["match"]["namespaceSelector"] = {"matchLabels": {"tier": str(number % 10)}}
            work.append(create(f"{api}/clustersparkpodpolicies", cluster_policy(f"p-{number}", **spec)))
        else:
            name = names[number % NAMESPACES]
            document = policy(name, f"p-{number}", **spec)
            work.append(create(f"{api}/namespaces/{name}/sparkpodpolicies", document))
    await asyncio.gather(*work)
    await client.close()


async def _touch(cluster: ControlPlane) -> None:
    """A change, so that the watches have something to tell."""
    client = await KubeClient.connect(cluster.kubeconfig)
    await client.apply(
        "/api/v1/namespaces/jobs",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobs", "annotations": {"a": "b"}}},
    )
    await client.close()


def _spec(number: int) -> Json:
    return {
        "priority": number % 7,
        "match": {"podSelector": {"matchLabels": {"team": f"t{number}"}}},
        "common": {
            "secrets": [{"name": f"s-{number}", "mountPath": f"/mnt/s-{number}"}],
            "env": [
                {"name": f"A_{number}", "value": "{{NAMESPACE}}"},
                {"name": f"B_{number}", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "volumes": [{"name": f"v-{number}", "emptyDir": {}, "mounts": [{"mountPath": f"/v-{number}"}]}],
            "labels": {f"example.com/l-{number}": "x"},
        },
        "driver": {"nodeSelector": {"pool": "drivers"}},
    }
