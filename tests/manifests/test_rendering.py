"""kustomize and Helm install the same thing, the same way each time, and no more rights than it needs."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import tools
from tests.manifests.rendering import BASE, CHART, IGNORE, MONITORED, Json, helm, kustomize, objects
from webhook.serve import ServeOptions

OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")


@pytest.mark.parametrize("path", [BASE, IGNORE, MONITORED], ids=lambda path: path.name)
def test_kustomize_renders_the_same_bytes_twice(path: Path) -> None:
    assert kustomize(path) == kustomize(path)


def test_helm_renders_the_same_bytes_twice() -> None:
    options = ("--set", "monitoring.enabled=true,proof.enabled=true")
    assert helm(*options) == helm(*options)


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (BASE, ()),
        (IGNORE, ("--set", "failurePolicy=Ignore")),
        (MONITORED, ("--set", "monitoring.enabled=true,proof.enabled=true")),
    ],
    ids=["base", "ignore", "monitored"],
)
def test_helm_and_kustomize_agree(path: Path, options: tuple[str, ...]) -> None:
    ours = objects(kustomize(path))
    # Helm makes the namespace of a release itself, or finds it there.
    ours.pop(("Namespace", "", "spark-webhook"))
    charts = {key: _without_helms_own(value) for key, value in objects(helm(*options)).items()}
    assert set(charts) == set(ours)
    for key, value in ours.items():
        assert charts[key] == value, key


def _without_helms_own(value: Json) -> Json:
    result = copy.deepcopy(value)
    metadata = result["metadata"]
    for label in OF_HELM:
        assert metadata["labels"].pop(label)
    if result["kind"] == "CustomResourceDefinition":
        assert metadata.pop("annotations") == {"helm.sh/resource-policy": "keep"}
    return result


def test_another_namespace() -> None:
    found = objects(helm(namespace="platform"))
    assert "spark-webhook" not in {namespace for _, namespace, _ in found}
    (webhook,) = found["MutatingWebhookConfiguration", "", "spark-webhook"]["webhooks"]
    assert webhook["clientConfig"]["service"]["namespace"] == "platform"
    assert "platform" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        (binding,) = (value for key, value in found.items() if key[0] == kind)
        assert binding["subjects"][0]["namespace"] == "platform"


def test_values_reach_the_server() -> None:
    values = "allow={hostPath},logLevel=debug,replicas=3,image.tag=1.2.3,imagePullSecrets={company}"
    values += ",nodeSelector.pool=system,tolerations[0].operator=Exists,priorityClassName=high"
    deployment = next(
        value for key, value in objects(helm("--set", values)).items() if key[0] == "Deployment"
    )
    assert deployment["spec"]["replicas"] == 3
    pod = deployment["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "company"}]
    assert pod["nodeSelector"] == {"pool": "system"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "high"
    (container,) = pod["containers"]
    assert container["image"].endswith(":1.2.3")
    assert container["args"][-2:] == ["--allow=hostPath", "--log-level=debug"]


@pytest.mark.parametrize("value", ["replica=3", "failurePolicy=fail", "timeoutSeconds=31", "image.tagg=x"])
def test_a_value_that_is_not_known_is_an_error(value: str) -> None:
    command = [str(tools.helm()), "template", str(CHART), "--kube-version", "1.37.0", "--set", value]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


ALL = [*objects(kustomize(MONITORED)).values()]


def test_no_wildcard_and_no_secret_but_its_own() -> None:
    roles = [item for item in ALL if item["kind"] in ("Role", "ClusterRole")]
    assert len(roles) == 4
    for role in roles:
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            if "secrets" in rule["resources"]:
                assert role["kind"] == "Role"
                assert rule["resourceNames"] == ["spark-webhook-tls"]
            if role["metadata"]["name"] == "spark-webhook":  # the server's own, and not for users
                assert not {"create", "delete", "deletecollection", "escalate", "bind"} & set(rule["verbs"])
            else:
                assert rule["resources"] == ["sparkpodpolicies"]


def test_the_pods_are_restricted_and_spread() -> None:
    (deployment,) = (item for item in ALL if item["kind"] == "Deployment")
    spec = deployment["spec"]
    assert spec["replicas"] == 2
    assert spec["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not pod.get("hostNetwork")
    assert {probe for probe in container if probe.endswith("Probe")} == {
        *("startupProbe", "livenessProbe", "readinessProbe"),
    }
    assert {term["topologyKey"] for term in pod["topologySpreadConstraints"]} == {
        *("kubernetes.io/hostname", "topology.kubernetes.io/zone"),
    }
    slowest = container["lifecycle"]["preStop"]["sleep"]["seconds"] + ServeOptions().shutdown_delay
    assert pod["terminationGracePeriodSeconds"] >= slowest + 25, "the drain has its own bound beyond this"


def test_the_configuration_is_narrow() -> None:
    (configuration,) = (item for item in ALL if item["kind"] == "MutatingWebhookConfiguration")
    (webhook,) = configuration["webhooks"]
    assert webhook["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhook["sideEffects"] == "None"
    assert webhook["timeoutSeconds"] == 5
    assert webhook["reinvocationPolicy"] == "IfNeeded"
    assert webhook["matchPolicy"] == "Equivalent"
    assert "caBundle" not in webhook["clientConfig"]


def test_nothing_is_written_that_the_server_writes() -> None:
    for item in ALL:
        if item["kind"] == "Secret":
            assert "data" not in item
            assert "stringData" not in item
        if item["kind"] == "Lease":
            assert "spec" not in item


def test_no_image_is_latest() -> None:
    assert not [
        image for item in ALL for image in _images(item) if ":" not in image or image.endswith(":latest")
    ]


def _images(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["image"]] if isinstance(value.get("image"), str) else []
        return found + [image for inner in value.values() for image in _images(inner)]
    return [image for inner in value for image in _images(inner)] if isinstance(value, list) else []


def test_alerts_are_about_metrics_that_there_are() -> None:
    from webhook.metrics import Metrics

    metrics = Metrics()
    metrics.watch_connected("namespaces", True)
    metrics.http_error(500)
    known = metrics.render("")[0].decode()
    (rule,) = (item for item in ALL if item["kind"] == "PrometheusRule")
    text = yaml.safe_dump(rule)
    names = {word for word in _words(text) if word.startswith("spark_webhook_")}
    assert names
    for name in names:
        assert f"\n{name}" in known or f"# TYPE {name} " in known, name


def _words(text: str) -> set[str]:
    return set("".join(char if char.isalnum() or char == "_" else " " for char in text).split())
