"""The writer of the policies' status by itself: what it must not write, and what it writes late."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, Json, cluster_policy, policy
from tests.cluster.proxy import Proxy
from tests.cluster.webhook import Webhook
from webhook.kube.client import KubeClient, KubeError
from webhook.kube.lease import Leadership
from webhook.kube.policy_status import StatusWriter
from webhook.namespaces import Namespace
from webhook.policy.check import check_object
from webhook.policy.compiled import compile_policy
from webhook.sources.cluster import ClusterSource, Verdict

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE = "status-writer"
API = "/apis/sparkwebhook.dev/v1alpha1"
ENV = {"env": [{"name": "A", "value": "x"}]}


@dataclass
class Known:
    """What a source knows."""

    verdicts: dict[str, Verdict]
    namespaces: dict[str, Namespace] = field(default_factory=dict)


@dataclass
class Lead:
    """Who leads."""

    holding: bool = True


@pytest.fixture(scope="module", autouse=True)
def _alone(cluster: ControlPlane, webhook: Webhook) -> Iterator[None]:
    """No replica writes any status meanwhile."""
    cluster.namespace(NAMESPACE, OPTED_IN)
    with webhook.stopped():
        yield
        cluster.kubectl("delete", "clustersparkpodpolicies", "--all")
        cluster.kubectl("delete", "sparkpodpolicies", "-n", NAMESPACE, "--all")


@asynccontextmanager
async def writing(kubeconfig: Path, known: Known, lead: Lead) -> AsyncIterator[StatusWriter]:
    client = await KubeClient.connect(kubeconfig)
    writer = StatusWriter(client, cast("ClusterSource", known), cast("Leadership", lead))
    task = asyncio.create_task(writer.run())
    try:
        yield writer
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()


def _made(cluster: ControlPlane, document: Json) -> Json:
    """The object as the API server has it, newly made."""
    cluster.apply(document)
    metadata = document["metadata"]
    place = ("-n", metadata["namespace"]) if "namespace" in metadata else ()
    answer = cluster.kubectl("get", document["kind"], metadata["name"], *place, "-o", "json").stdout
    item: Json = json.loads(answer)
    return item


def _judged(*items: Json) -> Known:
    verdicts = {}
    for item in items:
        found, errors = check_object(item, frozenset())
        compiled = compile_policy(found) if found is not None else None
        verdicts[f"{item['kind']}/{item['metadata']['name']}"] = Verdict(item, found, errors, compiled)
    return Known(verdicts, {NAMESPACE: Namespace(NAMESPACE, OPTED_IN)})


async def _status(client: KubeClient, path: str) -> Any:
    return (await client.call("GET", API + path)).get("status")


async def _until(what: str, ask: Callable[[], Coroutine[Any, Any, bool]], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        # It is the API server that is asked: there is nobody here to set an event.
        while not await ask():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_who_does_not_lead_does_not_write(cluster: ControlPlane, tmp_path: Path) -> None:
    known, lead = _judged(_made(cluster, cluster_policy("unwritten", common=ENV))), Lead(holding=False)

    async def scenario() -> None:
        with Proxy(cluster.url) as proxy:
            through = proxy.kubeconfig(cluster.kubeconfig, tmp_path)
            async with objects.admin(cluster) as admin, writing(through, known, lead) as writer:
                writer.wake()
                await asyncio.sleep(1.0)
                assert proxy.connections == 0

                lead.holding = True
                writer.wake()

                async def written() -> bool:
                    return bool(await _status(admin, "/clustersparkpodpolicies/unwritten"))

                await _until("it is written", written)

    _run(scenario)


@pytest.mark.older
def test_only_what_was_judged_is_written_to(cluster: ControlPlane) -> None:
    """Not to another object that has got the name since, nor to one whose spec has changed."""
    changed = _made(cluster, cluster_policy("changed", common=ENV))
    cluster.apply(cluster_policy("changed", driver=ENV))
    gone = _made(cluster, policy(NAMESPACE, "gone", common=ENV))
    old = _made(cluster, cluster_policy("again", common=ENV))
    last = _made(cluster, cluster_policy("last", common=ENV))
    cluster.kubectl("delete", "sparkpodpolicy", "gone", "-n", NAMESPACE)
    cluster.kubectl("delete", "clustersparkpodpolicy", "again")
    cluster.apply(cluster_policy("again", common=ENV))
    known = _judged(old, changed, gone, last)

    async def scenario() -> None:
        async with objects.admin(cluster) as admin:
            async with writing(cluster.kubeconfig, known, Lead()) as writer:
                writer.wake()

                async def written() -> bool:  # they are written in this order
                    return bool(await _status(admin, "/clustersparkpodpolicies/last"))

                await _until("the last one", written)
            assert await _status(admin, "/clustersparkpodpolicies/again") is None
            assert await _status(admin, "/clustersparkpodpolicies/changed") is None
            with pytest.raises(KubeError, match="not found"):
                await _status(admin, f"/namespaces/{NAMESPACE}/sparkpodpolicies/gone")

    _run(scenario)


def test_what_could_not_be_written_is_written_later(
    cluster: ControlPlane, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    items = [_made(cluster, cluster_policy(f"late-{number}", common=ENV)) for number in range(3)]
    known = _judged(*items)

    async def scenario() -> None:
        async with objects.admin(cluster) as admin:
            nobody = json.loads(cluster.kubeconfig.read_text())
            nobody["users"][0]["user"] = {"token": cluster.token(NAMESPACE, "default")}
            kubeconfig = tmp_path / "nobody.kubeconfig"
            kubeconfig.write_text(json.dumps(nobody))
            async with writing(kubeconfig, known, Lead()) as writer:
                with caplog.at_level(logging.WARNING, "webhook.kube.policy_status"):
                    writer.wake()
                    await asyncio.sleep(4.0)
                messages = [record.getMessage() for record in caplog.records]
                assert messages == ["can't write the status of policies"]
                assert "forbidden" in caplog.records[0].__dict__["fields"]["problem"]
                await asyncio.to_thread(
                    cluster.kubectl,
                    *("create", "clusterrolebinding", "status-writer-test", "--clusterrole=cluster-admin"),
                    f"--serviceaccount={NAMESPACE}:default",
                )

                async def written() -> bool:
                    found = [await _status(admin, f"/clustersparkpodpolicies/late-{n}") for n in range(3)]
                    return all(found)

                await _until("all are written", written)
            await asyncio.to_thread(cluster.kubectl, "delete", "clusterrolebinding", "status-writer-test")

    _run(scenario)


def test_one_that_is_refused_holds_up_no_other(cluster: ControlPlane) -> None:
    """An admission policy of the cluster may forbid what it likes."""
    known = _judged(*(_made(cluster, cluster_policy(name, common=ENV)) for name in ("denied", "fine")))
    api = {"apiVersion": "admissionregistration.k8s.io/v1"}
    rule = {
        "apiGroups": ["sparkwebhook.dev"],
        "apiVersions": ["*"],
        "operations": ["UPDATE"],
        "resources": ["clustersparkpodpolicies/status"],
        "resourceNames": ["denied"],
    }
    validation = {"expression": "false", "message": "denied by the test"}
    metadata = {"name": "status-writer-test"}
    cluster.apply(
        {
            **api,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": metadata,
            "spec": {"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]},
        },
        {
            **api,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": metadata,
            "spec": {"policyName": metadata["name"], "validationActions": ["Deny"]},
        },
    )
    forged = (
        "--subresource=status",
        "--type=merge",
        "-p",
        '{"status": {"namespaces": 5}}',
        "--dry-run=server",
    )
    objects.until(
        "the policy is in force",
        lambda: (
            "denied by the test" in cluster.kubectl("patch", "cspp", "denied", *forged, check=False).stderr
        ),
        seconds=30,
    )

    async def scenario() -> None:
        async with objects.admin(cluster) as admin, writing(cluster.kubeconfig, known, Lead()) as writer:
            writer.wake()

            async def written() -> bool:
                return bool(await _status(admin, "/clustersparkpodpolicies/fine"))

            await _until("the other one", written)
            assert await _status(admin, "/clustersparkpodpolicies/denied") is None

    try:
        _run(scenario)
    finally:
        kinds = "validatingadmissionpolicybinding,validatingadmissionpolicy"
        cluster.kubectl("delete", kinds, "status-writer-test")


def test_what_is_said_of_a_policy_that_is_not_in_force(cluster: ControlPlane) -> None:
    """A policy that was accepted and no longer is: nothing of the old status stays."""
    host = {"volumes": [{"name": "host", "hostPath": {"path": "/secret-path"}}]}
    item = _made(cluster, policy(NAMESPACE, "host", common=host))
    key = "SparkPodPolicy/host"
    known = _judged(item)
    allowed, _ = check_object(item, frozenset({"hostPath"}))
    assert allowed is not None
    accepted = replace(known.verdicts[key], policy=allowed, errors=(), compiled=compile_policy(allowed))
    path = f"/namespaces/{NAMESPACE}/sparkpodpolicies/host"

    async def scenario() -> None:
        async with objects.admin(cluster) as admin:

            async def is_accepted(status: str) -> bool:
                present = await _status(admin, path) or {}
                by_type = {one["type"]: one for one in present.get("conditions", ())}
                return bool(by_type) and by_type["Accepted"]["status"] == status

            async with writing(
                cluster.kubeconfig, Known({key: accepted}, known.namespaces), Lead()
            ) as writer:
                writer.wake()
                await _until("accepted", lambda: is_accepted("True"))
            status = await _status(admin, path)
            assert (status["namespaces"], status["features"]) == (1, {"driver": 1, "executor": 1})
            # another server, without --allow
            current = await admin.call("GET", API + path)
            refused = Known({key: replace(known.verdicts[key], item=current)}, known.namespaces)
            async with writing(cluster.kubeconfig, refused, Lead()) as writer:
                writer.wake()
                await _until("refused", lambda: is_accepted("False"))
            status = await _status(admin, path)
            assert (status["namespaces"], status["features"]) == (0, {"driver": 0, "executor": 0})
            assert [(one["type"], one["status"]) for one in status["conditions"]] == [
                ("Accepted", "False"),
                ("Conflicted", "Unknown"),
            ]
            assert "/secret-path" not in json.dumps(status)

    _run(scenario)
