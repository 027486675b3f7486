"""Which policies conflict, seen beforehand."""

from __future__ import annotations

import pytest

from webhook.namespaces import Namespace
from webhook.policy import conflicts
from webhook.policy.compiled import compile_policy
from webhook.policy.load import load

NAMESPACES = {
    name: Namespace(name, {"team": name, "stage": "prod" if name == "etl" else "test"})
    for name in ("etl", "ml")
}


def found(text: str) -> list[str]:
    """The conflicts of YAML policies, as `policy field winner`."""
    loaded = load([("policies", text)])
    assert not loaded.errors, loaded.errors
    scopes = [conflicts.scope(policy, compile_policy(policy), NAMESPACES) for policy in loaded.policies]
    by_name = conflicts.find(scopes)
    return sorted(f"{one.policy} {one.field} {one.winner}" for name in by_name for one in by_name[name])


def cluster(name: str, spec: str) -> str:
    return f"""---
apiVersion: sparkwebhook.dev/v1alpha1
kind: ClusterSparkPodPolicy
metadata: {{name: {name}}}
spec: {{{spec}}}
"""


def local(namespace: str, name: str, spec: str) -> str:
    return (
        cluster(name, spec)
        .replace("ClusterSpark", "Spark")
        .replace(f"{{name: {name}}}", f"{{name: {name}, namespace: {namespace}}}", 1)
    )


ENV_A = "common: {env: [{name: A, value: x}]}"
ENV_B = "common: {env: [{name: A, value: y}]}"

CASES = {
    "the same wish": (cluster("a", ENV_A) + cluster("b", ENV_A), []),
    "another value": (cluster("a", ENV_A) + cluster("b", ENV_B), ["b common.env[0] a"]),
    "by priority": (cluster("a", ENV_A) + cluster("b", f"priority: 1, {ENV_B}"), ["a common.env[0] b"]),
    "another role": (
        cluster("a", "driver: {env: [{name: A, value: x}]}")
        + cluster("b", "executor: {env: [{name: A, value: y}]}"),
        [],
    ),
    "common and one role": (
        cluster("a", ENV_A) + cluster("b", "executor: {env: [{name: A, value: y}]}"),
        ["b executor.env[0] a"],
    ),
    "namespaces apart": (
        cluster("a", f"match: {{namespaceSelector: {{matchLabels: {{team: etl}}}}}}, {ENV_A}")
        + cluster("b", f"match: {{namespaceSelector: {{matchLabels: {{team: ml}}}}}}, {ENV_B}"),
        [],
    ),
    "namespaces in common": (
        cluster("a", f"match: {{namespaceSelector: {{matchLabels: {{team: etl}}}}}}, {ENV_A}")
        + cluster("b", f"match: {{namespaceSelector: {{matchLabels: {{stage: prod}}}}}}, {ENV_B}"),
        ["b common.env[0] a"],
    ),
    "pods apart": (
        cluster("a", f"match: {{podSelector: {{matchLabels: {{app: x}}}}}}, {ENV_A}")
        + cluster("b", f"match: {{podSelector: {{matchLabels: {{app: y}}}}}}, {ENV_B}"),
        [],
    ),
    "pods that may be both": (
        cluster("a", f"match: {{podSelector: {{matchLabels: {{app: x}}}}}}, {ENV_A}")
        + cluster("b", f"match: {{podSelector: {{matchLabels: {{size: y}}}}}}, {ENV_B}"),
        ["b common.env[0] a"],
    ),
    "cluster and namespace": (cluster("a", ENV_A) + local("etl", "b", ENV_B), ["etl/b common.env[0] a"]),
    "namespace before cluster": (
        cluster("a", ENV_A) + local("etl", "b", f"priority: 5, {ENV_B}"),
        ["a common.env[0] etl/b"],
    ),
    "two namespaces": (local("etl", "a", ENV_A) + local("ml", "b", ENV_B), []),
    "a namespace that is not there": (cluster("a", ENV_A) + local("gone", "b", ENV_B), []),
    "other containers": (
        cluster("a", "common: {env: [{name: A, value: x, containers: [one]}]}")
        + cluster("b", "common: {env: [{name: A, value: y, containers: [two]}]}"),
        [],
    ),
    "one mount path": (
        cluster("a", "common: {secrets: [{name: x, mountPath: /etc/it}]}")
        + cluster("b", "common: {configMaps: [{name: y, mountPath: /etc/it/}]}"),
        ["b common.configMaps[0] a"],
    ),
    "labels and selectors": (
        cluster("a", "common: {labels: {team: x}}, driver: {nodeSelector: {pool: x}}")
        + cluster("b", "common: {labels: {team: y}, nodeSelector: {pool: y}}"),
        ["b common.labels[team] a", "b common.nodeSelector[pool] a"],
    ),
    "placeholders, the same": (
        cluster("a", 'common: {env: [{name: A, value: "{{NAMESPACE}}"}]}')
        + cluster("b", 'common: {env: [{name: A, value: "{{NAMESPACE}}"}]}'),
        [],
    ),
    "placeholders, others": (
        cluster("a", 'common: {env: [{name: A, value: "{{NAMESPACE}}"}]}')
        + cluster("b", 'common: {env: [{name: A, value: "{{APP_ID}}"}]}'),
        ["b common.env[0] a"],
    ),
    "joins add up": (
        cluster("a", 'common: {env: [{name: A, value: x, join: " "}]}')
        + cluster("b", 'common: {env: [{name: A, value: y, join: " "}]}'),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    text, expected = CASES[case]
    assert found(text) == expected


def test_a_thousand_policies_for_one_place() -> None:
    """Every team sets the same variable to a value of its own: compared by namespace, not all with all."""
    namespaces = {f"team-{n}": Namespace(f"team-{n}") for n in range(500)}
    text = "".join(
        local(f"team-{n % 500}", f"p-{n}", f"common: {{env: [{{name: A, value: v-{n}}}]}}")
        for n in range(1000)
    )
    loaded = load([("policies", text)])
    scopes = [conflicts.scope(policy, compile_policy(policy), namespaces) for policy in loaded.policies]
    assert len(conflicts.find(scopes)) == 500
