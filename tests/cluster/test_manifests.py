"""The manifests on a real API server: accepted, applied again without harm, and removed without leftovers."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster import objects as made
from tests.cluster import tools
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import Json, until
from tests.manifests.rendering import BASE, CHART, IGNORE, MONITORED, Key, helm, kustomize, objects

pytestmark = pytest.mark.xdist_group("cluster-manifests")

ACCOUNT = "system:serviceaccount:spark-webhook:spark-webhook"
# Kinds of the Prometheus operator, of which a cluster may have none.
OPERATOR_KINDS = ("ServiceMonitor", "PrometheusRule")


@pytest.fixture(scope="module")
def empty() -> Iterator[ControlPlane]:
    """A control plane of its own: the product comes and goes here."""
    with ControlPlane() as control_plane:
        control_plane.apply(*map(_operator_crd, OPERATOR_KINDS))
        names = [f"crd/{kind.lower()}s.monitoring.coreos.com" for kind in OPERATOR_KINDS]
        control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
        yield control_plane


def _operator_crd(kind: str) -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [version],
        },
    }


def _helm(cluster: ControlPlane, *arguments: str | Path) -> str:
    folders = ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    environment |= {name: str(cluster.directory / "helm") for name in folders}
    command = [tools.helm(), *arguments, "-n", "spark-webhook"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def _present(cluster: ControlPlane, keys: set[Key]) -> set[Key]:
    """Those of the objects that the cluster has."""
    found = set()
    for kind, namespace, name in keys:
        where = ("-n", namespace) if namespace else ()
        if cluster.kubectl("get", kind, name, *where, "--ignore-not-found", "-o", "name").stdout:
            found.add((kind, namespace, name))
    return found


def _versions(cluster: ControlPlane, keys: set[Key]) -> dict[Key, str]:
    path = "jsonpath={.metadata.resourceVersion}"
    return {
        (kind, namespace, name): cluster.kubectl(
            "get", kind, name, *(("-n", namespace) if namespace else ()), "-o", path
        ).stdout
        for kind, namespace, name in keys
    }


@pytest.mark.older
@pytest.mark.parametrize("path", [BASE, IGNORE, MONITORED], ids=lambda path: path.name)
def test_they_are_accepted_and_a_second_time_changes_nothing(empty: ControlPlane, path: Path) -> None:
    done = empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(path))
    assert "warning" not in done.stderr.lower()
    keys = set(objects(kustomize(path)))
    before = _versions(empty, keys)
    assert all(before.values())
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(path))
    # Deployments change by themselves: their controller writes the status.
    changed = {key for key, version in _versions(empty, keys).items() if before[key] != version}
    assert not {key for key in changed if key[0] != "Deployment"}


@pytest.mark.older
def test_what_the_account_may_do(empty: ControlPlane) -> None:
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    own = ("-n", "spark-webhook")
    policies = "clustersparkpodpolicies.sparkwebhook.dev"
    for question in (
        ("list", policies),
        ("watch", "sparkpodpolicies.sparkwebhook.dev", "-A"),
        ("patch", f"{policies}/any", "--subresource=status"),
        ("get", "namespaces/any"),
        ("watch", "namespaces"),
        ("patch", "mutatingwebhookconfigurations/spark-webhook"),
        ("watch", "secrets/spark-webhook-tls", *own),
        ("patch", "secrets/spark-webhook-tls", *own),
        ("update", "leases/spark-webhook", *own),
    ):
        assert _may(empty, *question), question
    for question in (
        ("list", "secrets", *own),
        ("get", "secrets/another", *own),
        ("get", "secrets/spark-webhook-tls", "-n", "default"),
        ("create", "secrets", *own),
        ("get", "pods", "-A"),
        ("get", "configmaps", "-A"),
        ("patch", f"{policies}/any"),
        ("patch", "namespaces/any"),
        ("patch", "mutatingwebhookconfigurations/another"),
        ("delete", "mutatingwebhookconfigurations/spark-webhook"),
        ("create", "serviceaccounts/token", *own),
    ):
        assert not _may(empty, *question), question


def _may(cluster: ControlPlane, *question: str) -> bool:
    said = cluster.kubectl("auth", "can-i", *question, f"--as={ACCOUNT}", check=False).stdout.strip()
    assert said in ("yes", "no"), said
    return said == "yes"


def test_who_may_write_policies(empty: ControlPlane) -> None:
    """Who edits a namespace, also its policies; of the cluster's, administrators alone."""
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    empty.namespace("team", {})
    empty.kubectl("create", "rolebinding", "ann", "-n", "team", "--clusterrole=edit", "--user=ann")
    empty.kubectl("create", "rolebinding", "vic", "-n", "team", "--clusterrole=view", "--user=vic")

    def may(user: str, verb: str, resource: str, *where: str) -> bool:
        question = ("auth", "can-i", verb, f"{resource}.sparkwebhook.dev", *where, f"--as={user}")
        return empty.kubectl(*question, check=False).stdout.strip() == "yes"

    until("the roles are put together", lambda: may("ann", "create", "sparkpodpolicies", "-n", "team"))
    assert may("vic", "get", "sparkpodpolicies", "-n", "team")
    assert not may("vic", "create", "sparkpodpolicies", "-n", "team")
    assert not may("ann", "create", "sparkpodpolicies", "-n", "default")
    assert not may("ann", "patch", "sparkpodpolicies", "--subresource=status", "-n", "team")
    assert not may("ann", "create", "clustersparkpodpolicies")


def test_the_restricted_standard_takes_its_pods(empty: ControlPlane) -> None:
    """The namespace enforces it, and the pod is made from the Deployment's template."""
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    template = objects(kustomize(BASE))["Deployment", "spark-webhook", "spark-webhook"]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "try"}, "spec": template["spec"]}
    create = ("create", "-n", "spark-webhook", "--dry-run=server", "-f", "-")
    done = empty.kubectl(*create, stdin=json.dumps(pod))
    assert "warning" not in done.stderr.lower()
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    done = empty.kubectl(*create, stdin=json.dumps(pod), check=False)
    assert "violates PodSecurity" in done.stderr


def _server_writes(cluster: ControlPlane) -> Callable[[], tuple[str, str, str]]:
    """Write what a server would, and return what tells whether it is still there."""
    own = ("-n", "spark-webhook")
    certificate = base64.b64encode(cluster.ca.read_bytes()).decode()
    patch = json.dumps([{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": certificate}])
    cluster.kubectl(
        "patch", "mutatingwebhookconfiguration", "spark-webhook", "--type=json", f"--patch={patch}"
    )
    data = json.dumps({"data": {"tls.crt": certificate}})
    cluster.kubectl("patch", "secret", "spark-webhook-tls", *own, "--type=merge", f"--patch={data}")
    spec = json.dumps({"spec": {"holderIdentity": "somebody"}})
    cluster.kubectl("patch", "lease", "spark-webhook", *own, "--type=merge", f"--patch={spec}")

    def read() -> tuple[str, str, str]:
        def get(kind: str, name: str, path: str) -> str:
            return cluster.kubectl("get", kind, name, *own, "-o", f"jsonpath={{{path}}}").stdout

        return (
            get("mutatingwebhookconfiguration", "spark-webhook", ".webhooks[0].clientConfig.caBundle"),
            get("secret", "spark-webhook-tls", ".data.tls\\.crt"),
            get("lease", "spark-webhook", ".spec.holderIdentity"),
        )

    assert read() == (certificate, certificate, "somebody")
    return read


def test_applying_again_keeps_what_the_server_wrote(empty: ControlPlane) -> None:
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    read = _server_writes(empty)
    before = read()
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    assert read() == before
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(IGNORE))
    assert read() == before
    empty.kubectl("delete", "-k", str(BASE))

    empty.kubectl("create", "-k", str(BASE), "--save-config")
    read = _server_writes(empty)
    before = read()
    for path in (BASE, IGNORE):
        empty.kubectl("apply", "-k", str(path))
        assert read() == before


def test_removing_leaves_nothing(empty: ControlPlane) -> None:
    keys = set(objects(kustomize(MONITORED)))
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MONITORED))
    assert _present(empty, keys) == keys
    empty.kubectl("delete", "-k", str(MONITORED))
    assert _present(empty, keys) == set()


def test_helm_installs_upgrades_and_removes(empty: ControlPlane) -> None:
    keys = set(objects(helm()))
    definitions = {key for key in keys if key[0] == "CustomResourceDefinition"}
    # As `helm install --create-namespace` does it, which writes no label.
    said = _helm(empty, "install", "spark-webhook", CHART, "--create-namespace")
    assert "sparkwebhook.dev/inject=enabled" in said
    assert _present(empty, keys) == keys
    read = _server_writes(empty)
    before = read()
    _helm(empty, "upgrade", "spark-webhook", CHART, "--set", "failurePolicy=Ignore,monitoring.enabled=true")
    assert read() == before
    where = ("mutatingwebhookconfiguration", "spark-webhook")
    policy = empty.kubectl("get", *where, "-o", "jsonpath={.webhooks[0].failurePolicy}")
    assert policy.stdout == "Ignore"
    more = set(objects(helm("--set", "monitoring.enabled=true")))
    assert _present(empty, more) == more
    _helm(empty, "uninstall", "spark-webhook")
    assert _present(empty, more) == definitions, "policies must not go with a release"
    empty.kubectl("delete", "-k", str(BASE.parent / "crds"))
    empty.kubectl("delete", "namespace", "spark-webhook")
    assert _present(empty, more) == set()


@pytest.mark.older
def test_who_waits_for_the_webhook(empty: ControlPlane) -> None:
    """With no server, Spark pods of namespaces that opted in are refused, and nobody else."""
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(BASE))
    empty.namespace("waiting", made.OPTED_IN)
    empty.namespace("not-waiting", {})
    empty.kubectl("label", "namespace", "spark-webhook", "sparkwebhook.dev/inject=enabled")
    bare, other, mirror = made.driver(), made.driver(), made.driver()
    bare["metadata"].pop("annotations", None)
    del other["metadata"]["labels"]["spark-role"]
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    mirror["spec"].pop("serviceAccountName", None)
    mirror["spec"].pop("serviceAccount", None)
    mirror["spec"]["nodeName"] = "node"
    refused, _ = made.until(
        "it is refused", lambda: _refused(_try_to_create(empty, "waiting", bare)), seconds=60
    )
    assert 'failed calling webhook "pods.sparkwebhook.dev"' in refused
    for namespace, pod in (("waiting", other), ("waiting", mirror), ("not-waiting", bare)):
        done = _try_to_create(empty, namespace, pod)
        assert done.returncode == 0, done.stderr
    # Refused, but by the restricted standard: the webhook was not asked.
    assert "violates PodSecurity" in _try_to_create(empty, "spark-webhook", bare).stderr
    empty.kubectl("delete", "-k", str(BASE))


@pytest.mark.older
def test_the_proof(empty: ControlPlane) -> None:
    """With failurePolicy Ignore and no server, a driver slips through the webhook, but not past this."""
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(MONITORED))
    empty.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(IGNORE))
    empty.namespace("proof", made.OPTED_IN)
    empty.namespace("proof-closed", {})
    create = partial(_try_to_create, empty)

    refused, _ = made.until("it is refused", lambda: _refused(create("proof", made.driver())), seconds=60)
    assert "no policy of the Spark pod webhook was applied to this pod" in refused
    warned = create("proof", made.executor())
    assert warned.returncode == 0
    assert "no policy of the Spark pod webhook was applied" in warned.stderr
    assert create("proof-closed", made.driver()).returncode == 0
    other = made.driver()
    del other["metadata"]["labels"]["spark-role"]
    assert create("proof", other).returncode == 0
    seen = made.driver()
    seen["metadata"]["annotations"] = {made.STATUS: "{}"}
    assert create("proof", seen).returncode == 0
    empty.kubectl("delete", "-k", str(MONITORED))


def _refused(done: subprocess.CompletedProcess[str]) -> str:
    return done.stderr if done.returncode else ""


def _try_to_create(cluster: ControlPlane, namespace: str, pod: Json) -> subprocess.CompletedProcess[str]:
    create = ("create", "-n", namespace, "--dry-run=server", "-f", "-")
    return cluster.kubectl(*create, stdin=json.dumps(pod), check=False)
