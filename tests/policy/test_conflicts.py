"""Which policies conflict, seen beforehand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

from tests.properties.policies import Json, policy_sets, to_yaml
from webhook.changes import Change, EnsureKey
from webhook.namespaces import Namespace
from webhook.policy import conflicts
from webhook.policy.compiled import Feature, compile_policy
from webhook.policy.conflicts import Scope
from webhook.policy.lint import overlap
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


def one_of(key: str, *values: str) -> str:
    return f"matchExpressions: [{{key: {key}, operator: In, values: [{', '.join(values)}]}}]"


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
    "pods apart by a list of values": (
        cluster("a", f"match: {{podSelector: {{matchLabels: {{app: x}}}}}}, {ENV_A}")
        + cluster("b", f"match: {{podSelector: {{{one_of('app', 'y', 'z')}}}}}, {ENV_B}"),
        [],
    ),
    "a list of values in common": (
        cluster("a", f"match: {{podSelector: {{{one_of('app', 'x', 'y')}}}}}, {ENV_A}")
        + cluster("b", f"match: {{podSelector: {{{one_of('app', 'y', 'z')}}}}}, {ENV_B}"),
        ["b common.env[0] a"],
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
    "a join and a value": (
        cluster("a", ENV_A) + cluster("b", 'common: {env: [{name: A, value: y, join: " "}]}'),
        ["b common.env[0] a"],
    ),
    "joins with other separators": (
        cluster("a", 'common: {env: [{name: A, value: x, join: " "}]}')
        + cluster("b", 'common: {env: [{name: A, value: y, join: ":"}]}'),
        ["b common.env[0] a"],
    ),
    "the first of several": (
        cluster("a", ENV_A) + cluster("b", ENV_B) + cluster("c", "common: {env: [{name: A, value: z}]}"),
        ["b common.env[0] a", "c common.env[0] a"],
    ),
    "one of the same wish goes first": (
        cluster("a", ENV_B) + cluster("b", ENV_A) + cluster("c", ENV_B),
        ["b common.env[0] a", "c common.env[0] b"],
    ),
    "a role's item and another container's": (
        cluster("a", "driver: {env: [{name: A, value: x, containers: [one]}, {name: A, value: y}]}")
        + cluster("b", "common: {env: [{name: A, value: y, containers: [two]}, {name: A, value: x}]}"),
        ["b common.env[1] a"],
    ),
    "what Kubernetes takes for the same": (
        cluster("a", "common: {volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]}")
        + cluster("b", 'common: {volumes: [{name: v, emptyDir: {sizeLimit: 1024Mi, medium: ""}}]}'),
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_case(case: str) -> None:
    text, expected = CASES[case]
    assert found(text) == expected


@given(policy_sets)
def test_the_same_as_comparing_all_with_all(documents: list[Json]) -> None:
    loaded = load([("policies", to_yaml(documents))])
    namespaces = {one.name: one for one in loaded.namespaces.values()}
    scopes = [conflicts.scope(policy, compile_policy(policy), namespaces) for policy in loaded.policies]
    seen = {(one.policy, one.field): one.winner for found in conflicts.find(scopes).values() for one in found}
    expected = dict(_all_with_all(sorted(scopes, key=lambda one: one.compiled.precedence)))
    assert seen.keys() == expected.keys()
    for key, winner in seen.items():
        assert winner in expected[key], key


def _all_with_all(scopes: list[Scope]) -> Iterator[tuple[tuple[str, str], set[str]]]:
    """For each feature that loses, who may be named: the first policy that wants something else somewhere."""
    winners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for number, scope in enumerate(scopes):
        for role in ("driver", "executor"):
            for feature in scope.compiled.features[role]:
                for change in feature.wishes():
                    for other in scopes[:number]:
                        if _may_meet(scope, other) and _differs(change, other.compiled.features[role]):
                            winners[scope.compiled.name, feature.field].add(other.compiled.name)
                            break
    yield from winners.items()


def _differs(change: Change, features: tuple[Feature, ...]) -> bool:
    """True if the first of the features that asks for something in these containers wants something else."""
    asked: list[tuple[Any, Change]] = []
    for feature in features:
        for wish in feature.wishes():
            (place, containers), (mine, ours) = _where(wish), _where(change)
            if place == mine and not any(containers == before for before, _ in asked):
                asked.append((containers, wish))
    return any(overlap(containers, ours) and not wish.same_wish(change) for containers, wish in asked)


def _where(change: Any) -> tuple[Any, Any]:
    if isinstance(change, EnsureKey):
        return (change.field, change.key), "All"
    kind, containers = change.place
    identity = change.name if hasattr(change, "name") else change.identity
    return (kind.field, identity), list(containers) if isinstance(containers, tuple) else containers


def _may_meet(one: Scope, other: Scope) -> bool:
    needs = [_needs(scope.policy.spec.match.podSelector) for scope in (one, other)]
    return bool(one.namespaces & other.namespaces) and not any(
        key in needs[1] and not values & needs[1][key] for key, values in needs[0].items()
    )


def _needs(selector: Any) -> dict[str, set[str]]:
    needs: dict[str, set[str]] = {}
    for key, value in selector.matchLabels.items() if selector else ():
        needs[key] = {value}
    for term in selector.matchExpressions if selector else ():
        if term.operator == "In":
            needs[term.key] = needs.get(term.key, set(term.values)) & set(term.values)
    return needs


def test_policies_for_every_namespace_and_one_place() -> None:
    """All of them meet all others, and all ask for the same ten variables: no two are compared."""
    namespaces = {f"team-{n}": Namespace(f"team-{n}") for n in range(500)}
    variables = [f"{{name: A{n}, value: VALUE}}" for n in range(10)]
    env = f"common: {{env: [{', '.join(variables)}]}}"
    text = "".join(
        cluster(f"p-{n}", env.replace("VALUE", f"v-{n}"))
        if n % 2
        else local(f"team-{n % 500}", f"p-{n}", env.replace("VALUE", f"v-{n % 3}"))
        for n in range(1000)
    )
    loaded = load([("policies", text)])
    scopes = [conflicts.scope(policy, compile_policy(policy), namespaces) for policy in loaded.policies]
    assert len(conflicts.find(scopes)) == 999
