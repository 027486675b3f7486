"""Policies and namespaces by watch, through a proxy that breaks what a network breaks."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, Json, cluster_policy, policy
from tests.cluster.proxy import Proxy
from webhook.kube.client import KubeClient
from webhook.namespaces import Namespace
from webhook.policy.policy_set import PolicySet
from webhook.sources.cluster import ClusterSource
from webhook.sources.reading import Reading

pytestmark = pytest.mark.xdist_group("cluster")

COLLECTION = "/apis/sparkwebhook.dev/v1alpha1"


class Follower:
    """A source at work, and what it has handed over."""

    def __init__(self, source: ClusterSource, readings: list[Reading]) -> None:
        self.source, self.readings = source, readings
        self.connected: dict[str, bool] = {}

    @property
    def policies(self) -> PolicySet:
        policies = self.readings[-1].policies
        assert policies is not None
        return policies

    def names(self, namespace: str) -> set[str]:
        """The policies that are in force for this namespace."""
        return {found.name for found in self.policies.matching(namespace, {})} if self.readings else set()

    def has(self, name: str, priority: int) -> bool:
        """True if the policy of this name is in force with this priority, in the namespace `source`."""
        found = self.policies.matching("source", {})
        return any(one.name == name and one.precedence[0] == -priority for one in found)

    async def until(self, what: str, ask: Callable[[], bool], seconds: float = 15.0) -> float:
        """Seconds until it was true."""
        start = time.monotonic()
        while not ask():
            assert time.monotonic() - start < seconds, f"{what}: not after {seconds} s"
            await asyncio.sleep(0.01)
        return time.monotonic() - start


@asynccontextmanager
async def following(kubeconfig: Path) -> AsyncIterator[Follower]:
    client = await KubeClient.connect(kubeconfig)
    readings: list[Reading] = []
    connected: dict[str, bool] = {}
    source = ClusterSource(
        client,
        allowed=frozenset(),
        own_namespace="spark-webhook",
        on_reading=readings.append,
        on_connection=connected.__setitem__,
    )
    follower = Follower(source, readings)
    follower.connected = connected
    task = asyncio.create_task(source.run())
    try:
        await follower.until("the first sync", lambda: bool(readings))
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


async def _write(client: KubeClient, *documents: Json) -> None:
    for document in documents:
        metadata = document["metadata"]
        kind = "clustersparkpodpolicies"
        if document["kind"] == "SparkPodPolicy":
            kind = f"namespaces/{metadata['namespace']}/sparkpodpolicies"
        await client.apply(f"{COLLECTION}/{kind}/{metadata['name']}", document)


async def _delete(client: KubeClient, name: str) -> None:
    await client.call("DELETE", f"{COLLECTION}/clustersparkpodpolicies/{name}")


@pytest.fixture(scope="module", autouse=True)
def _namespace(cluster: ControlPlane, crds: None) -> None:
    cluster.namespace("source", OPTED_IN)


@pytest.fixture(autouse=True)
def _no_policies(cluster: ControlPlane, _namespace: None) -> Any:
    yield

    async def clean() -> None:
        async with objects.admin(cluster) as admin:
            for collection in ("clustersparkpodpolicies", "namespaces/source/sparkpodpolicies"):
                await admin.call("DELETE", f"{COLLECTION}/{collection}")

    asyncio.run(clean())


def named(name: str, **spec: Any) -> Json:
    spec = spec or {"common": {"env": [{"name": "A", "value": "b"}]}}
    return cluster_policy(name, **spec)


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_change_is_in_force_within_a_second(cluster: ControlPlane) -> None:
    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower, objects.admin(cluster) as admin:
            for number in range(5):
                await _write(admin, named("fast", priority=number))
                took = await follower.until("the change", partial(follower.has, "fast", number))
                assert took < 1.0, f"in force after {took:.2f} s"
            await _delete(admin, "fast")
            assert await follower.until("the deletion", lambda: "fast" not in follower.names("source")) < 1.0

    _run(scenario)


def test_what_is_known_is_kept_while_the_api_server_is_away(cluster: ControlPlane, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Proxy(cluster.url) as proxy:
            async with (
                following(proxy.kubeconfig(cluster.kubeconfig, tmp_path)) as follower,
                objects.admin(cluster) as admin,
            ):
                await _write(admin, named("stays"), named("goes"))
                await follower.until("both", lambda: {"stays", "goes"} <= follower.names("source"))
                proxy.hold()
                await follower.until("noticed", lambda: not any(follower.connected.values()))
                await _delete(admin, "goes")
                await _write(admin, named("comes"))
                await asyncio.sleep(1.0)
                assert {"stays", "goes"} <= follower.names("source")
                assert follower.source.problems()
                proxy.release()
                await follower.until(
                    "the news", lambda: {"stays", "comes"} == follower.names("source") - {"goes"}
                )
                await follower.until("the deletion", lambda: "goes" not in follower.names("source"))
                assert follower.source.problems() == []

    _run(scenario)


def test_watches_that_break_lose_nothing(cluster: ControlPlane, tmp_path: Path) -> None:
    async def scenario() -> None:
        with Proxy(cluster.url) as proxy:
            async with (
                following(proxy.kubeconfig(cluster.kubeconfig, tmp_path)) as follower,
                objects.admin(cluster) as admin,
            ):
                for number in range(30):
                    await _write(admin, named(f"cut-{number}"))
                    if number % 3 == 2:
                        await _delete(admin, f"cut-{number - 1}")
                    if number % 4 == 0:
                        proxy.cut()
                wanted = {f"cut-{n}" for n in range(30) if n % 3 != 1}
                await follower.until("all of them", lambda: wanted == follower.names("source"), 30)

    _run(scenario)


def test_a_version_that_is_gone_is_listed_anew(
    cluster: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An API server that restarted knows no history: who comes with an old version is told 410."""
    caplog.set_level(logging.INFO, "webhook")

    async def scenario() -> None:
        with Proxy(cluster.url) as proxy:
            async with following(proxy.kubeconfig(cluster.kubeconfig, tmp_path)) as follower:
                async with objects.admin(cluster) as admin:
                    await _write(admin, named("old"), named("kept"))
                    await follower.until("both", lambda: {"old", "kept"} <= follower.names("source"))
                    proxy.hold()
                    await _delete(admin, "old")
                    await _write(admin, named("new"))
                await asyncio.to_thread(cluster.restart_api_server)
                async with objects.admin(cluster) as admin:
                    await _write(admin, named("newer"))
                proxy.release()
                wanted = {"kept", "new", "newer"}
                await follower.until("the present state", lambda: wanted == follower.names("source"), 30)

    _run(scenario)


def test_the_api_server_restarts(cluster: ControlPlane) -> None:
    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower:
            async with objects.admin(cluster) as admin:
                await _write(admin, named("before"))
                await follower.until("it", lambda: "before" in follower.names("source"))
            await asyncio.to_thread(cluster.restart_api_server, down=1.5)
            assert "before" in follower.names("source")
            async with objects.admin(cluster) as admin:
                await _write(admin, named("after"))
            await follower.until("both", lambda: {"before", "after"} == follower.names("source"), 30)

    _run(scenario)


def test_more_than_a_page(cluster: ControlPlane) -> None:
    async def scenario() -> None:
        async with objects.admin(cluster) as admin:
            await asyncio.gather(*(_write(admin, named(f"page-{number:03}")) for number in range(120)))
            async with following(cluster.kubeconfig) as follower:
                assert len(follower.names("source")) == 120

    _run(scenario)


def test_an_object_that_cannot_be_used_disturbs_no_other(cluster: ControlPlane) -> None:
    """The schema can't know everything: whether hostPath is allowed is an option of the server."""
    bad = policy("source", "bad", common={"volumes": [{"name": "host", "hostPath": {"path": "/data"}}]})

    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower, objects.admin(cluster) as admin:
            await _write(admin, named("good"), bad)
            await follower.until(
                "it is judged", lambda: "SparkPodPolicy/source/bad" in follower.source.verdicts
            )
            await follower.until("the good one", lambda: follower.names("source") == {"good"})
            verdict = follower.source.verdicts["SparkPodPolicy/source/bad"]
            assert verdict.policy is None
            assert "hostPath: not allowed in a SparkPodPolicy" in verdict.errors[0]
            assert follower.readings[-1].problems == (f"SparkPodPolicy/source/bad: {verdict.errors[0]}",)
            bad["spec"]["common"]["volumes"] = [{"name": "host", "emptyDir": {}}]
            await _write(admin, bad)
            await follower.until("both", lambda: follower.names("source") == {"good", "source/bad"})
            assert not follower.readings[-1].problems

    _run(scenario)


def test_namespaces_come_and_change(cluster: ControlPlane) -> None:
    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower, objects.admin(cluster) as admin:
            selector = {"matchLabels": {"tier": "gold"}}
            await _write(
                admin,
                named(
                    "gold",
                    match={"namespaceSelector": selector},
                    common={"env": [{"name": "A", "value": "b"}]},
                ),
            )
            body = {"metadata": {"name": "source-moving", "annotations": {"a": "b"}}}
            await admin.call("POST", "/api/v1/namespaces", body=body)
            await follower.until("the namespace", lambda: follower.policies.knows("source-moving"))
            await follower.until("the policy", lambda: len(follower.policies) == 1)
            assert follower.policies.namespace("source-moving").annotations["a"] == "b"
            assert follower.names("source-moving") == set()
            await asyncio.to_thread(
                cluster.kubectl, "label", "namespace", "source-moving", "tier=gold", "--overwrite"
            )
            await follower.until("the label", lambda: follower.names("source-moving") == {"gold"})
            assert follower.names("source") == set()
            await asyncio.to_thread(cluster.kubectl, "delete", "namespace", "source-moving")
            await follower.until("its end", lambda: not follower.policies.knows("source-moving"))

    _run(scenario)


def test_a_namespace_that_the_watch_has_not_told_of(cluster: ControlPlane, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower:
            # As if the watch had not told of it: nobody else may change what the source knows.
            cast("dict[str, Namespace]", follower.source.namespaces).pop("source")
            await asyncio.to_thread(
                cluster.kubectl, "annotate", "namespace", "default", f"x={time.time()}", "--overwrite"
            )
            await follower.until("it is forgotten", lambda: not follower.policies.knows("source"))
            follower.source.look_up("source")
            follower.source.look_up("source")
            await follower.until("it is known", lambda: follower.policies.knows("source"))
            assert follower.policies.namespace("source").labels["sparkwebhook.dev/inject"] == "enabled"

    _run(scenario)


def test_a_status_does_not_count_as_a_change(cluster: ControlPlane) -> None:
    async def scenario() -> None:
        async with following(cluster.kubeconfig) as follower, objects.admin(cluster) as admin:
            await _write(admin, named("told"))
            await follower.until("it", lambda: follower.names("source") == {"told"})
            judged = follower.source.verdicts["ClusterSparkPodPolicy/told"].policy
            status = json.dumps({"status": {"observedGeneration": 1}})
            await asyncio.to_thread(
                cluster.kubectl,
                *("patch", "clustersparkpodpolicy", "told", "--subresource=status", "--type=merge"),
                *("-p", status),
            )
            await follower.until(
                "the status",
                lambda: "status" in follower.source.verdicts["ClusterSparkPodPolicy/told"].item,
            )
            assert follower.source.verdicts["ClusterSparkPodPolicy/told"].policy is judged

    _run(scenario)
