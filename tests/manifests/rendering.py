"""The manifests as kustomize and Helm render them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import tools

Json = dict[str, Any]
Key = tuple[str, str, str]

MANIFESTS = Path(__file__).parents[2] / "manifests"
CHART = MANIFESTS / "helm" / "spark-webhook"
NAMESPACE = "spark-webhook"
BASE, IGNORE, MONITORED = MANIFESTS / "base", MANIFESTS / "overlays/ignore", MANIFESTS / "overlays/monitored"


def kustomize(path: Path) -> str:
    """The text that `kubectl apply -k` sends."""
    return _run(tools.kubectl(), "kustomize", path)


def helm(*options: str, namespace: str = NAMESPACE) -> str:
    """The text of the chart's manifests."""
    fixed = ("--namespace", namespace, "--kube-version", f"{tools.MINORS[0]}.0")
    return _run(tools.helm(), "template", "spark-webhook", CHART, *fixed, *options)


def objects(text: str) -> dict[Key, Json]:
    """The documents of a text by kind, namespace and name."""
    found: dict[Key, Json] = {}
    for document in yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if document:
            metadata = document["metadata"]
            key = (document["kind"], metadata.get("namespace", ""), metadata["name"])
            assert key not in found, f"{key} is rendered twice"
            found[key] = document
    return found


def _run(program: Path, *arguments: str | Path) -> str:
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
