"""What is measured: recorded reviews against 20 policies of which some match.

The policies are of both kinds and all could apply in the reviews' namespace; which do is decided by pod
labels, with matchLabels and matchExpressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests import corpus, every_step
from webhook import show

NAMESPACE = "jobs"
REVIEWS = (
    "3.5.9/cluster-bare-driver",
    "3.5.9/client-driver-pod-executor",
    "3.5.9/cluster-full-driver",
    "3.5.9/cluster-full-executor",
    "4.3.0/cluster-hadoop-krb5-driver",
    "4.3.0/cluster-bare-executor",
    "4.3.0/cluster-full-driver",
    "4.3.0/client-deployment-allocator-executor",
)
_TOTAL = 20


@dataclass(frozen=True, slots=True)
class Scenario:
    """A set of policies and what is expected of it."""

    key: str
    words: str
    policies: str
    changes: bool
    target: float
    """The least ratio to the echo's rate."""


def bodies() -> list[bytes]:
    """The recorded reviews, byte for byte as the API server sent them."""
    return [corpus.body(corpus.review(name)) for name in REVIEWS]


def scenarios() -> list[Scenario]:
    """The scenarios, in the order in which they are measured."""
    few = [_secret(0), _config_map(1), _literals(2), _scheduling(3), _env(4)]
    many = [_block(number) for number in range(_TOTAL)]
    return [
        Scenario("a", "5 of 20 policies match", _documents(few), True, 0.35),
        Scenario("b", "20 of 20 policies match", _documents(many), True, 0.25),
        Scenario("c", "none of 20 policies matches", _documents([]), False, 0.6),
        Scenario("d", "1 of 20 matches and uses every step", _every_step(), True, 0.04),
    ]


def _every_step() -> str:
    return f"{_documents([], _TOTAL - 1)}---\n{every_step.TEXT}"


def _documents(matching: list[dict[str, Any]], total: int = _TOTAL) -> str:
    others = [_block(n) for n in range(len(matching), total)]
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"lake": "yes"}},
    }
    policies = [_policy(n, block, _matching(n)) for n, block in enumerate(matching)]
    policies += [_policy(n, block, _other(n)) for n, block in enumerate(others, len(matching))]
    return "---\n".join(map(show.to_yaml, [namespace, *policies]))


def _policy(number: int, block: dict[str, Any], selector: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": f"policy-{number}"}
    match: dict[str, Any] = {"podSelector": selector}
    kind = "ClusterSparkPodPolicy"
    if number % 2:
        kind, metadata["namespace"] = "SparkPodPolicy", NAMESPACE
    else:
        match["namespaceSelector"] = {"matchLabels": {"lake": "yes"}}
    return {
        "apiVersion": "sparkwebhook.dev/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": {"priority": number, "match": match, "common": block},
    }


def _matching(number: int) -> dict[str, Any]:
    if number % 2:
        return {
            "matchExpressions": [{"key": "spark-role", "operator": "In", "values": ["driver", "executor"]}]
        }
    return {"matchExpressions": [{"key": "example.com/no-defaults", "operator": "DoesNotExist"}]}


def _other(number: int) -> dict[str, Any]:
    if number % 2:
        return {"matchLabels": {"team": f"team-{number}"}}
    return {"matchExpressions": [{"key": "team", "operator": "In", "values": [f"team-{number}", "nobody"]}]}


def _block(number: int) -> dict[str, Any]:
    """What one policy of many asks for: 2 or 3 operations, a placeholder in every fourth."""
    match number % 4:
        case 0:
            return _secret(number) | _env(number)
        case 1:
            return _config_map(number) | _env(number)
        case 2:
            return _literals(number)
        case _:
            return _scheduling(number)


def _secret(number: int) -> dict[str, Any]:
    return {"secrets": [{"name": f"secret-{number}", "mountPath": f"/etc/secrets/{number}"}]}


def _config_map(number: int) -> dict[str, Any]:
    return {"configMaps": [{"name": f"config-{number}", "mountPath": f"/etc/config/{number}"}]}


def _env(number: int) -> dict[str, Any]:
    token = {"secretKeyRef": {"name": f"secret-{number}", "key": "token"}}
    return {"env": [{"name": f"TOKEN_{number}", "valueFrom": token}]}


def _literals(number: int) -> dict[str, Any]:
    with_placeholders = {"name": f"ID_{number}", "value": "{{NAMESPACE}}/{{APP_ID}}"}
    return {"env": [with_placeholders, {"name": f"VALUE_{number}", "value": f"value {number}"}]}


def _scheduling(number: int) -> dict[str, Any]:
    toleration = {"key": "dedicated", "operator": "Equal", "value": f"pool-{number}", "effect": "NoSchedule"}
    return {"tolerations": [toleration], "labels": {f"example.com/label-{number}": "yes"}}
