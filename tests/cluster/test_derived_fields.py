"""Fields from which the API server derives others: it does so again after the webhook has changed them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import objects
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import OPTED_IN, cluster_policy, create
from tests.cluster.webhook import Webhook

pytestmark = pytest.mark.xdist_group("cluster")

NAMESPACE, POLICY = "derived", "derived-fields"


@pytest.fixture(scope="module", autouse=True)
def _policy(cluster: ControlPlane, webhook: Webhook) -> Iterator[None]:
    cluster.namespace(NAMESPACE, {**OPTED_IN, "derived": "yes"})
    name = {"name": "derived"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**name, "namespace": NAMESPACE}},
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": name,
            "value": 4321,
            "preemptionPolicy": "Never",
        },
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": name,
            "handler": "runc",
            "overhead": {"podFixed": {"cpu": "250m"}},
        },
        cluster_policy(
            POLICY,
            match={"namespaceSelector": {"matchLabels": {"derived": "yes"}}},
            common={
                "priorityClassName": "derived",
                "runtimeClassName": "derived",
                "serviceAccountName": "derived",
                "hostNetwork": True,
                "dnsPolicy": "ClusterFirstWithHostNet",
                "ports": [{"name": "metrics", "containerPort": 9404}],
                "sidecars": [{"name": "agent", "image": "registry.example.com/agent:1"}],
                "resources": {"limits": {"example.com/gpu": 1}},
            },
        ),
    )
    webhook.wait_for_policies(1)
    yield
    cluster.kubectl("delete", "clustersparkpodpolicy", POLICY)


def test_what_follows_from_a_changed_field_is_worked_out_anew(cluster: ControlPlane) -> None:
    for sent in (objects.driver(), objects.executor()):
        spec = create(cluster, NAMESPACE, sent)["spec"]
        assert (spec["priority"], spec["preemptionPolicy"]) == (4321, "Never")
        assert spec["overhead"] == {"cpu": "250m"}
        assert spec["serviceAccountName"] == spec["serviceAccount"] == "derived"
        assert spec["hostNetwork"] is True
        container = next(c for c in spec["containers"] if c["name"].startswith("spark"))
        ports = {port["containerPort"]: port.get("hostPort") for port in container["ports"]}
        assert ports[9404] == 9404
        assert container["resources"]["requests"]["example.com/gpu"] == "1"
        (agent,) = spec["initContainers"]
        assert agent["restartPolicy"] == "Always"
