"""What an API server says to policies before they are stored: the schema and its CEL rules."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings

from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import Json, cluster_policy, policy
from tests.policy.test_load_cases import CASES, parse
from tests.properties.policies import policies
from tests.test_cases import FILES, read
from webhook.kube.client import KubeClient, KubeError
from webhook.policy.load import load
from webhook.policy.model import NAMESPACED_KIND

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.older]

ROOT = Path(__file__).parents[2]
NAMESPACE = "crds"
T = TypeVar("T")


class Api:
    """Writes policies without storing them, on connections that stay open."""

    def __init__(self, kubeconfig: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = self._run(KubeClient.connect(kubeconfig))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.close()

    def write(self, *documents: Json) -> list[Json | KubeError]:
        """What the API server answers to each."""

        at_once = asyncio.Semaphore(8)

        async def write(document: Json) -> Json | KubeError:
            async with at_once:
                return await self._write(document)

        async def all_of_them() -> list[Json | KubeError]:
            return await asyncio.gather(*map(write, documents))

        return self._run(all_of_them())

    async def _write(self, document: Json) -> Json | KubeError:
        collection = "clustersparkpodpolicies"
        metadata = {"name": document["metadata"]["name"]}
        if document["kind"] == NAMESPACED_KIND:
            collection = f"namespaces/{NAMESPACE}/sparkpodpolicies"
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        path = f"/apis/sparkwebhook.dev/v1alpha1/{collection}"
        try:
            answer: Json = await self._client.call(
                "POST", path, query=query, body={**document, "metadata": metadata}
            )
        except KubeError as error:
            return error
        return answer


@pytest.fixture(scope="module")
def api(cluster: ControlPlane, crds: None) -> Iterator[Api]:
    cluster.namespace(NAMESPACE, {})
    client = Api(cluster.kubeconfig)
    yield client
    client.close()


def test_the_definitions_are_sound(cluster: ControlPlane, crds: None) -> None:
    found = json.loads(cluster.kubectl("get", "crd", "-o", "json").stdout)["items"]
    assert len(found) == 2
    for definition in found:
        conditions = {item["type"]: item["status"] for item in definition["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions


def test_kubectl_knows_them(cluster: ControlPlane, crds: None) -> None:
    assert "no resources found" in cluster.kubectl("get", "cspp,spp", "-A").stderr.lower()
    assert "onConflict" in cluster.kubectl("explain", "cspp.spec").stdout
    said = cluster.kubectl(
        "apply",
        "--dry-run=server",
        "-f",
        "-",
        stdin=json.dumps(cluster_policy("a", onConflikt="x")),
        check=False,
    )
    assert 'unknown field "spec.onConflikt"' in said.stderr


def _valid() -> Iterator[Json]:
    """All policies of this repository that the loader accepts."""
    texts = [path.read_text() for path in sorted((ROOT / "manifests" / "examples").glob("*.yaml"))]
    texts += [read(file).policies for file in FILES]
    for path in CASES:
        texts += [text for _, text in parse(path.read_text(encoding="utf-8"))[0]]
    for text in texts:
        loaded = load([("policies", text)], allowed=frozenset({"hostPath"}))
        for found in loaded.policies:
            # as it was written: what is not set is not there
            yield found.model_dump(mode="json", exclude_unset=True)


def test_what_the_server_accepts_the_api_server_stores_as_it_is(api: Api) -> None:
    documents = list(_valid())
    assert len(documents) > 250
    for document, answer in zip(documents, api.write(*documents), strict=True):
        assert isinstance(answer, dict), f"{answer}\n{json.dumps(document)}"
        assert answer.get("spec", {}) == document.get("spec", {}), json.dumps(document)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=policies())
def test_any_policy_that_the_server_accepts(api: Api, document: Json) -> None:
    loaded = load([("policy", json.dumps(document))], allowed=frozenset({"hostPath"}))
    if not loaded.errors:
        (answer,) = api.write(document)
        assert isinstance(answer, dict), answer
        assert answer["spec"] == document["spec"]


def common(**features: Any) -> Json:
    return cluster_policy("wrong", common=features)


WRONG = {
    "unknown field": (cluster_policy("a", prioritty=1), 'unknown field "spec.prioritty"'),
    "unknown feature": (common(enviroment=[]), 'unknown field "spec.common.enviroment"'),
    "unknown field of Kubernetes": (
        common(volumes=[{"name": "a", "emptyDir": {"sizelimit": "1Gi"}}]),
        'unknown field "spec.common.volumes[0].emptyDir.sizelimit"',
    ),
    "text for a number": (cluster_policy("a", priority="1"), "must be of type integer"),
    "too large": (cluster_policy("a", priority=2**31), "priority"),
    "no such word": (cluster_policy("a", onConflict="keep"), 'supported values: "Keep", "Replace", "Reject"'),
    "number as a value": (common(env=[{"name": "A", "value": 1}]), "must be of type string"),
    "no name": (common(env=[{"value": "1"}]), "spec.common.env[0].name: Required value"),
    "value and valueFrom": (
        common(env=[{"name": "A", "value": "b", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        "value and valueFrom exclude each other",
    ),
    "two sources of a value": (
        common(
            env=[
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "secretKeyRef": {"name": "a", "key": "b"},
                    },
                }
            ]
        ),
        "spec.common.env[0].valueFrom",
    ),
    "join without a value": (common(env=[{"name": "A", "join": " "}]), "join needs a value"),
    "Spark's variable": (common(env=[{"name": "SPARK_USER", "value": "x"}]), "can't be changed by a policy"),
    "Spark's JVM options": (common(env=[{"name": "SPARK_JAVA_OPT_7", "value": "x"}]), "set by Spark"),
    "Spark's label": (common(labels={"spark-role": "driver"}), "can't be changed by a policy"),
    "our annotation": (common(annotations={"sparkwebhook.dev/status": "{}"}), "can't be changed by a policy"),
    "Spark's volume": (common(volumes=[{"name": "spark-local-dir-1", "emptyDir": {}}]), "can't be changed"),
    "Spark's path": (common(secrets=[{"name": "a", "mountPath": "/opt/spark/conf"}]), "can't be changed"),
    "relative path": (
        common(secrets=[{"name": "a", "mountPath": "etc"}]),
        "spec.common.secrets[0].mountPath",
    ),
    "name of a secret": (common(secrets=[{"name": "A_b", "mountPath": "/a"}]), "spec.common.secrets[0].name"),
    "no source": (common(volumes=[{"name": "a"}]), "needs exactly one of its sources"),
    "two sources": (
        common(volumes=[{"name": "a", "emptyDir": {}, "configMap": {"name": "b"}}]),
        "needs exactly one of its sources",
    ),
    "volume twice": (
        common(volumes=[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]),
        "spec.common.volumes[1]: Duplicate value",
    ),
    "subPath twice": (
        common(
            volumes=[
                {
                    "name": "a",
                    "emptyDir": {},
                    "mounts": [{"mountPath": "/a", "subPath": "b", "subPathExpr": "c"}],
                }
            ]
        ),
        "subPath and subPathExpr exclude each other",
    ),
    "neither reference": (
        common(envFrom=[{"prefix": "A_"}]),
        "needs exactly one of configMapRef and secretRef",
    ),
    "toleration": (common(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]), "takes no value"),
    "toleration of nothing": (common(tolerations=[{"operator": "Equal"}]), "without a key"),
    "seconds": (common(tolerations=[{"key": "a", "tolerationSeconds": 5}]), "effect: NoExecute"),
    "containers, a word": (
        common(env=[{"name": "A", "value": "b", "containers": "spark"}]),
        "spec.common.env[0].containers",
    ),
    "containers, none": (
        common(env=[{"name": "A", "value": "b", "containers": []}]),
        "spec.common.env[0].containers",
    ),
    "containers, a number": (
        common(env=[{"name": "A", "value": "b", "containers": [1]}]),
        "spec.common.env[0].containers",
    ),
    "containers, a mapping": (
        common(env=[{"name": "A", "value": "b", "containers": {}}]),
        "spec.common.env[0].containers",
    ),
    "selector": (
        cluster_policy(
            "a", match={"podSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}}
        ),
        "need at least one value",
    ),
    "label value": (common(labels={"a": "b c"}), "spec.common.labels.a"),
    "mode": (common(secrets=[{"name": "a", "mountPath": "/a", "defaultMode": 1000}]), "defaultMode"),
    "namespaces of a namespaced one": (
        policy(NAMESPACE, "a", match={"namespaceSelector": {}}),
        'unknown field "spec.match.namespaceSelector"',
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_refused_when_it_is_written(api: Api, name: str) -> None:
    document, message = WRONG[name]
    (answer,) = api.write(document)
    assert isinstance(answer, KubeError), answer
    assert answer.status in (400, 422), answer
    assert message in str(answer)
    loaded = load([("policy", json.dumps({**document, "metadata": {"name": "a"}}))])
    assert loaded.errors, "the server would take it"
