"""The policies and the reviews that the HTTP tests use."""

from __future__ import annotations

from typing import Any

from tests import corpus

SECRET_VALUE = "value-that-no-log-may-show"

POLICIES = f"""\
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {{name: lake}}
spec:
  common:
    env: [{{name: LAKE_REGION, value: {SECRET_VALUE}}}]
    secrets: [{{name: lake-credentials, mountPath: /etc/secrets/lake}}]
---
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {{name: strict}}
spec:
  onConflict: Reject
  match: {{podSelector: {{matchLabels: {{team: strict}}}}}}
  driver:
    env: [{{name: SHARED, value: ours}}]
"""


def policy(name: str, variable: str) -> str:
    """A cluster policy that sets one variable to its own name."""
    return f"""\
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {{name: {name}}}
spec: {{common: {{env: [{{name: {variable}, value: {name}}}]}}}}
"""


def review() -> dict[str, Any]:
    """A driver's review, as recorded."""
    return corpus.review("3.5.9/cluster-bare-driver")


def body() -> bytes:
    """Its body."""
    return corpus.body(review())


def rejected() -> dict[str, Any]:
    """A driver's review that the policy `strict` refuses."""
    changed = review()
    pod = changed["request"]["object"]
    pod["metadata"]["labels"]["team"] = "strict"
    pod["spec"]["containers"][0]["env"].append({"name": "SHARED", "value": SECRET_VALUE})
    return changed
