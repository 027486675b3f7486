"""A newcomer's path through the README, its commands run as they stand there, by kustomize and by Helm."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import objects, tools
from tests.cluster.control_plane import ControlPlane
from tests.cluster.webhook import ROOT, Webhook

pytestmark = pytest.mark.xdist_group("cluster-manifests")

_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^```console\n\$ (kubectl .*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _sections() -> dict[str, str]:
    _, *parts = _SECTION.split((ROOT / "README.md").read_text())
    return dict(zip(parts[::2], parts[1::2], strict=True))


SECTIONS = _sections()
(KUSTOMIZE, HELM, OPT_IN), (POLICY, LOOK, *_) = (
    _COMMANDS.findall(SECTIONS[title]) for title in ("Install", "A first policy")
)
REMOVE = _COMMANDS.findall(SECTIONS["Remove it"])


_CONTROL_PLANES = ("default", "kube-system", "kube-public", "kube-node-lease")


class Shell:
    """Runs commands in the repository's root, with kubectl and Helm of the cluster."""

    def __init__(self, cluster: ControlPlane, folder: Path) -> None:
        for program in (tools.kubectl(), tools.helm()):
            (folder / program.name).symlink_to(program)
        self._environment = {
            **os.environ,
            "PATH": f"{folder}:{os.environ['PATH']}",
            "KUBECONFIG": str(cluster.kubeconfig),
            "HOME": str(folder),
        }

    def __call__(self, commands: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=ROOT, env=self._environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{commands}{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def fresh() -> Iterator[ControlPlane]:
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.mark.older
@pytest.mark.parametrize(
    ("install", "remove"), [(KUSTOMIZE, REMOVE[0]), (HELM, REMOVE[1])], ids=["kustomize", "helm"]
)
def test_install_opt_in_first_policy_remove(
    fresh: ControlPlane, tmp_path: Path, install: str, remove: str
) -> None:
    run = Shell(fresh, tmp_path)
    before = _everything(fresh)
    run(install)
    webhook = Webhook(fresh)
    webhook.start()  # the cluster has no nodes to do it
    try:
        run(OPT_IN)
        run("until kubectl get serviceaccount default -n jobs; do sleep 0.1; done")
        run(POLICY)
        webhook.wait_for_policies(1)
        pod = yaml.safe_load(run(LOOK))
        application = pod["metadata"]["labels"]["spark-app-selector"]
        assert objects.spark_env(pod)["LAKE_CLIENT_ID"] == f"spark/jobs/{application}"
        ((command, shown),) = _SHOWN.findall(SECTIONS["A first policy"])
        objects.until("the policy has a status", lambda: _row(run(command)) == _row(shown), seconds=30)
        assert _header(run(command)) == _header(shown)
        run(remove)
    finally:
        webhook.stop()
    fresh.kubectl("delete", "namespace", "jobs")
    fresh.kubectl("wait", "--for=delete", "namespace/jobs", "--timeout=60s")
    assert _everything(fresh) - before == set()


def _row(table: str) -> list[str]:
    """The only line, without the age."""
    return table.splitlines()[-1].split()[:-1]


def _header(table: str) -> list[str]:
    return table.splitlines()[0].split()


def _everything(cluster: ControlPlane) -> set[str]:
    """Names of all objects that an installation could leave behind."""
    kinds = (
        *("namespaces", "customresourcedefinitions", "clusterroles", "clusterrolebindings"),
        *("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies"),
        *("services", "secrets", "roles", "rolebindings", "leases", "deployments", "networkpolicies"),
        *("poddisruptionbudgets", "serviceaccounts", "configmaps"),
    )
    answer = cluster.kubectl("get", ",".join(kinds), "--all-namespaces", "-o", "json").stdout
    return {
        f"{item['kind']} {item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
        for item in json.loads(answer)["items"]
        # what the control plane itself makes there when it starts
        if item["metadata"].get("namespace", "") not in _CONTROL_PLANES
    }
