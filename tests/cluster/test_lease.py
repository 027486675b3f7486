"""One leader among candidates that use one Lease of a real API server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import Json
from tests.cluster.proxy import Proxy
from webhook.kube.client import KubeClient
from webhook.kube.lease import Leadership

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE = "leases"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
# As manifests/base/lease.yaml ships it.
EMPTY = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


class Candidate:
    """A replica that would lead. `told` is what it was told, in order."""

    def __init__(self, client: KubeClient, lease: str, identity: str) -> None:
        self.told: list[bool] = []
        self.identity = identity
        self.client = client
        self.leadership = Leadership(
            client, namespace=NAMESPACE, name=lease, identity=identity, on_change=self.told.append
        )
        self.task = asyncio.create_task(self.leadership.run())

    @property
    def holding(self) -> bool:
        return self.leadership.holding

    async def kill(self) -> None:
        """It is gone, and could not say so."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def stop(self) -> None:
        """As a replica ends."""
        await self.kill()
        await self.leadership.release()


class Candidates(list[Candidate]):
    """The candidates for one Lease; there must never be two that lead."""

    @property
    def leading(self) -> list[Candidate]:
        return [one for one in self if one.holding]

    async def next(self, *, seconds: float, other_than: Candidate | None = None) -> tuple[Candidate, float]:
        """The leader, and after how many seconds there was one."""
        found, took = await _until(
            "somebody leads", lambda: [one for one in self.leading if one is not other_than], seconds
        )
        return found[0], took

    async def watch(self) -> None:
        while True:
            leading = [one.identity for one in self.leading]
            assert len(leading) < 2, leading
            await asyncio.sleep(0.005)


@asynccontextmanager
async def candidates(lease: str, kubeconfigs: Sequence[Path]) -> AsyncIterator[Candidates]:
    found = Candidates()
    for number, kubeconfig in enumerate(kubeconfigs, 1):
        client = await KubeClient.connect(kubeconfig)
        found.append(Candidate(client, lease, f"{lease}-{number}"))
    watching = asyncio.create_task(found.watch())
    try:
        yield found
        assert not watching.done(), watching.exception()
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        for one in found:
            await one.kill()
            await one.client.close()


@pytest.fixture(scope="module", autouse=True)
def _namespace(cluster: ControlPlane) -> None:
    cluster.namespace(NAMESPACE, {})


@pytest.fixture
def lease(cluster: ControlPlane, request: pytest.FixtureRequest) -> str:
    name = request.node.name.partition("[")[0].replace("_", "-")[:50].strip("-")
    cluster.apply({**EMPTY, "metadata": {"name": name, "namespace": NAMESPACE}})
    return str(name)


async def _until(what: str, ask: Callable[[], Any], seconds: float) -> tuple[Any, float]:
    start = time.monotonic()
    while not (answer := ask()):
        assert time.monotonic() - start < seconds, f"{what}: not after {seconds} s"
        await asyncio.sleep(0.01)
    return answer, time.monotonic() - start


async def _spec(candidate: Candidate, lease: str) -> Json:
    answer: Json = await candidate.client.call("GET", f"{LEASES}/{lease}")
    return answer["spec"] or {}


def _run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


@pytest.mark.older
def test_one_of_many_leads_and_hands_over(cluster: ControlPlane, lease: str) -> None:
    async def scenario() -> None:
        async with candidates(lease, [cluster.kubeconfig] * 5) as them:
            first, _ = await them.next(seconds=10)
            await _until("it is told", lambda: first.told, 5)
            spec = await _spec(first, lease)
            assert spec["holderIdentity"] == first.identity
            assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 1)
            await asyncio.sleep(4.0)
            renewed = await _spec(first, lease)
            assert renewed["renewTime"] > spec["renewTime"]
            assert renewed["acquireTime"] == spec["acquireTime"]
            assert [one.told for one in them if one is not first] == [[]] * 4

            await first.stop()
            assert first.told == [True, False]
            second, took = await them.next(seconds=10)
            assert took < 2.0, f"handed over after {took:.1f} s"
            spec = await _spec(second, lease)
            assert spec["holderIdentity"] == second.identity
            assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 2)

    _run(scenario)


def test_the_next_one_leads_once_the_lease_has_expired(
    cluster: ControlPlane, lease: str, tmp_path: Path
) -> None:
    """A leader that is killed, and one that is cut off from the API server, at the same time."""
    other = f"{lease}-cut-off"[-50:].strip("-")
    cluster.apply({**EMPTY, "metadata": {"name": other, "namespace": NAMESPACE}})

    async def killed() -> None:
        async with candidates(lease, [cluster.kubeconfig] * 2) as them:
            first, _ = await them.next(seconds=10)
            await first.kill()
            second, took = await them.next(seconds=30, other_than=first)
            assert took > 10.0, f"{second.identity} leads after {took:.1f} s already"
            assert (await _spec(second, lease))["leaseTransitions"] == 2

    async def cut_off() -> None:
        with Proxy(cluster.url) as proxy:
            through = proxy.kubeconfig(cluster.kubeconfig, tmp_path)
            async with candidates(other, [through]) as them:
                first, _ = await them.next(seconds=10)
                client = await KubeClient.connect(cluster.kubeconfig)
                second = Candidate(client, other, "second")
                them.append(second)
                await asyncio.sleep(3.0)
                await asyncio.to_thread(proxy.hold)
                _, took = await _until("it stops leading", lambda: not first.holding, 15)
                assert took <= 10.5, f"it went on for {took:.1f} s"
                await them.next(seconds=30)
                assert second.holding
                await _until("it is told", lambda: first.told == [True, False], 15)
                await asyncio.to_thread(proxy.release)
                await asyncio.sleep(5.0)
                assert them.leading == [second]
                await second.stop()
                await them.next(seconds=10)
                await _until("it is told again", lambda: first.told == [True, False, True], 10)

    async def scenario() -> None:
        await asyncio.gather(killed(), cut_off())

    _run(scenario)


def test_a_restart_of_the_api_server(cluster: ControlPlane, lease: str) -> None:
    async def scenario() -> None:
        async with candidates(lease, [cluster.kubeconfig] * 3) as them:
            first, _ = await them.next(seconds=10)
            before = (await _spec(first, lease))["leaseTransitions"]
            await asyncio.to_thread(cluster.restart_api_server)
            await them.next(seconds=30)
            await asyncio.sleep(5.0)
            assert len(them.leading) == 1
            same = them.leading == [first]
            assert (await _spec(first, lease))["leaseTransitions"] == before + (not same)

    _run(scenario)


def test_without_the_lease_nobody_leads_and_that_is_said_once(
    cluster: ControlPlane, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with candidates("late", [cluster.kubeconfig]) as them:
            with caplog.at_level(logging.WARNING, "webhook.kube.lease"):
                await asyncio.sleep(4.0)
            assert not them.leading
            assert [record.getMessage() for record in caplog.records] == ["can't use the lease"]
            assert "not found" in caplog.records[0].__dict__["fields"]["problem"]
            document = {**EMPTY, "metadata": {"name": "late", "namespace": NAMESPACE}}
            await asyncio.to_thread(cluster.apply, document)
            await them.next(seconds=10)

    _run(scenario)
