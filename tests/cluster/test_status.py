"""The status of policy objects, and the leader that writes it, with two replicas."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, Json, cluster_policy, policy
from tests.cluster.webhook import Webhook

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE = "status"
ENV = {"env": [{"name": "A", "value": "x"}]}


@pytest.fixture(scope="module", autouse=True)
def _namespace(cluster: ControlPlane, webhook: Webhook) -> None:
    cluster.namespace(NAMESPACE, {**OPTED_IN, "team": "status"})


@pytest.fixture(autouse=True)
def _no_policies(cluster: ControlPlane) -> Iterator[None]:
    yield
    cluster.kubectl("delete", "clustersparkpodpolicies", "--all")
    cluster.kubectl("delete", "sparkpodpolicies", "-n", NAMESPACE, "--all")


def _get(cluster: ControlPlane, kind: str, name: str) -> Json:
    answer: Json = json.loads(cluster.kubectl("get", kind, name, "-n", NAMESPACE, "-o", "json").stdout)
    return answer


def conditions(item: Json) -> dict[str, tuple[str, str, str]]:
    """Status, reason and message of each condition, once they are about the present generation."""
    return {
        one["type"]: (one["status"], one["reason"], one["message"])
        for one in item.get("status", {}).get("conditions", ())
        if one["observedGeneration"] == item["metadata"]["generation"]
    }


def until_accepted(cluster: ControlPlane, kind: str, name: str, status: str = "True") -> Json:
    def ask() -> Json | None:
        item = _get(cluster, kind, name)
        return item if conditions(item).get("Accepted", ("",))[0] == status else None

    return objects.until(f"{name} is judged", ask, seconds=30)[0]


def test_an_accepted_policy(cluster: ControlPlane) -> None:
    selector = {"namespaceSelector": {"matchLabels": {"team": "status"}}}
    cluster.apply(
        cluster_policy("good", match=selector, common=ENV, driver={"nodeSelector": {"a": "b"}}),
        policy(NAMESPACE, "good", executor={"labels": {"a": "b"}}),
    )
    item = until_accepted(cluster, "cspp", "good")
    assert item["status"]["namespaces"] == 1
    assert item["status"]["features"] == {"driver": 2, "executor": 1}
    assert conditions(item)["Conflicted"][:2] == ("False", "NoConflict")
    item = until_accepted(cluster, "spp", "good")
    assert item["status"]["namespaces"] == 1
    assert item["status"]["features"] == {"driver": 0, "executor": 1}
    shown = cluster.kubectl("get", "cspp", "good").stdout.splitlines()
    assert shown[0].split() == [
        "NAME",
        "PRIORITY",
        "MANDATORY",
        "ACCEPTED",
        "CONFLICTED",
        "NAMESPACES",
        "AGE",
    ]
    assert shown[1].split()[1:4] == ["True", "False", "1"]


def test_a_policy_that_the_schema_lets_through(cluster: ControlPlane, webhook: Webhook) -> None:
    volume = {"name": "host", "hostPath": {"path": "/secret-path"}}
    cluster.apply(policy(NAMESPACE, "bad", common={"volumes": [volume]}), cluster_policy("good", common=ENV))
    status, reason, message = conditions(until_accepted(cluster, "spp", "bad", "False"))["Accepted"]
    assert (status, reason) == ("False", "Invalid")
    assert message.startswith("spec.common.volumes[0].hostPath: not allowed in a SparkPodPolicy")
    assert "/secret-path" not in message
    until_accepted(cluster, "cspp", "good")
    for replica in webhook.replicas:
        assert replica.metric("spark_webhook_policies_invalid") == 1
        assert "hostPath: not allowed" in replica.probe("/readyz")
    cluster.apply(policy(NAMESPACE, "bad", common={"volumes": [{"name": "host", "emptyDir": {}}]}))
    until_accepted(cluster, "spp", "bad")
    objects.until(
        "no longer counted",
        lambda: not any(replica.metric("spark_webhook_policies_invalid") for replica in webhook.replicas),
    )


def test_a_conflict_and_its_end(cluster: ControlPlane) -> None:
    other = {"env": [{"name": "A", "value": "another-value"}]}
    cluster.apply(cluster_policy("first", priority=10, common=ENV), policy(NAMESPACE, "second", common=other))

    def conflicted(status: str) -> Any:
        found = conditions(_get(cluster, "spp", "second")).get("Conflicted", ("",))
        return found if found[0] == status else None

    (_, reason, message), _ = objects.until("it is told", lambda: conflicted("True"), seconds=30)
    assert reason == "PolicyConflict"
    assert message == "spec.common.env[0] (env A): policy first goes first"
    assert conditions(_get(cluster, "cspp", "first"))["Conflicted"][0] == "False"
    cluster.kubectl("delete", "cspp", "first")
    objects.until("it is over", lambda: conflicted("False"), seconds=30)


def test_what_is_right_is_not_written_again(cluster: ControlPlane, webhook: Webhook) -> None:
    cluster.apply(cluster_policy("quiet", common=ENV))
    version = until_accepted(cluster, "cspp", "quiet")["metadata"]["resourceVersion"]
    cluster.kubectl("annotate", "namespace", NAMESPACE, f"now={time.time()}", "--overwrite")
    with webhook.stopped():
        pass
    time.sleep(2.0)
    assert _get(cluster, "cspp", "quiet")["metadata"]["resourceVersion"] == version


def test_a_changed_spec_is_judged_again(cluster: ControlPlane) -> None:
    cluster.apply(cluster_policy("moving", common=ENV))
    before = until_accepted(cluster, "cspp", "moving")
    cluster.apply(cluster_policy("moving", common=ENV, driver={"labels": {"a": "b"}}))
    after = until_accepted(cluster, "cspp", "moving")
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    assert after["status"]["features"] == {"driver": 2, "executor": 1}
    times = [item["status"]["conditions"][0]["lastTransitionTime"] for item in (before, after)]
    assert times[0] == times[1]


def test_a_forged_status_is_put_right(cluster: ControlPlane) -> None:
    cluster.apply(cluster_policy("forged", common=ENV))
    until_accepted(cluster, "cspp", "forged")
    forged = json.dumps([{"op": "replace", "path": "/status/namespaces", "value": 99}])
    cluster.kubectl("patch", "cspp", "forged", "--subresource=status", "--type=json", f"--patch={forged}")
    objects.until(
        "put right", lambda: _get(cluster, "cspp", "forged")["status"]["namespaces"] != 99, seconds=30
    )


def _holder(cluster: ControlPlane) -> str:
    lease = json.loads(
        cluster.kubectl("get", "lease", "spark-webhook", "-n", "spark-webhook", "-o", "json").stdout
    )
    return str(lease.get("spec", {}).get("holderIdentity", ""))


def test_another_replica_takes_over(cluster: ControlPlane, webhook: Webhook) -> None:
    objects.until("somebody leads", lambda: _holder(cluster), seconds=30)
    leader = next(replica for replica in webhook.replicas if replica.name == _holder(cluster))
    others = [replica.name for replica in webhook.replicas if replica is not leader]
    assert leader.stop() == 0
    assert objects.until("another one leads", lambda: _holder(cluster) in others, seconds=30)[1] < 10
    cluster.apply(cluster_policy("after", common=ENV))
    until_accepted(cluster, "cspp", "after")
    leader.start()

    leader = next(replica for replica in webhook.replicas if replica.name == _holder(cluster))
    others = [replica.name for replica in webhook.replicas if replica is not leader]
    leader.kill()
    objects.until("the other one leads", lambda: _holder(cluster) in others, seconds=45)
    leader.start()
