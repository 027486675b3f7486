"""What is promised for every policy and every pod, on generated policies and odd but legal pods."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from jsonpointer import JsonPointer

from tests import corpus, door, kubernetes_schema
from tests.properties import pods
from tests.properties.policies import policy_sets, to_yaml
from webhook import spark

Json = dict[str, Any]

BLOCKS = ("common", "driver", "executor")
# field of a role block -> lists and maps of the pod that its items may write to
WRITES = {
    "secrets": {"volumes", "volumeMounts", "env"},
    "configMaps": {"volumes", "volumeMounts"},
    "volumes": {"volumes", "volumeMounts"},
    "env": {"env"},
    "envFrom": {"envFrom"},
    "hadoop": {"volumes", "volumeMounts", "env"},
    **{
        field: {field}
        for field in ("labels", "annotations", "nodeSelector", "tolerations", "imagePullSecrets")
    },
}
IDENTITY = {"volumes": "name", "env": "name", "imagePullSecrets": "name", "volumeMounts": "mountPath"}


def items(documents: list[Json]) -> list[tuple[str, str, Any]]:
    """(field, effective onConflict, item) of all items of all policies."""
    found = []
    for document in documents:
        spec = document["spec"]
        default = spec.get("onConflict", "Keep")
        for block in BLOCKS:
            for field, value in spec.get(block, {}).items():
                for item in value if isinstance(value, list) else [value]:
                    own = item.get("onConflict") if field in ("hadoop",) or isinstance(value, list) else None
                    found.append((field, own or default, item))
    return found


def parts(documents: list[Json]) -> set[str]:
    """The lists and maps of a pod that the policies write to at all."""
    return {part for field, _, _ in items(documents) for part in WRITES[field]}


def overwritable(documents: list[Json]) -> set[str]:
    """The lists and maps of a pod in which the policies may overwrite something of the author's."""
    replaced = {part for field, rule, _ in items(documents) if rule == "Replace" for part in WRITES[field]}
    joined = {"env" for field, _, item in items(documents) if field == "env" and "join" in item}
    filled_in = {"tolerations"} & parts(documents)
    return replaced | joined | filled_in


def part_of(pointer: str) -> str:
    """The list or map of the pod that a pointer leads into."""
    names = [name for name in pointer.split("/") if name and name != "-" and not name.isdigit()]
    match names:
        case ["metadata", field, *_]:
            return field
        case ["spec", "containers" | "initContainers", field, *_]:
            return field
        case ["spec", field, *_]:
            return field
    return pointer


@given(policy_sets, pods.requests(unknown_fields=True))
def test_only_what_is_stated_changes(documents: list[Json], review: Json) -> None:
    outcome = door.admit(review, door.policy_set(to_yaml(documents)))

    overwritten = door.rewritten(outcome)
    for operation in outcome.operations:
        assert operation["op"] in ("add", "replace")
        assert part_of(operation["path"]) in parts(documents) | {"annotations"}
    for pointer in overwritten:
        assert part_of(pointer) in overwritable(documents)
    for operation in outcome.operations:
        if operation["path"] in overwritten and operation["path"] != door.STATUS_PATH:
            assert keeps_identity(outcome, operation), operation


def keeps_identity(outcome: door.Outcome, operation: Json) -> bool:
    """True if the operation overwrites one item by one of the same identity, or one value of a map."""
    now = JsonPointer(operation["path"]).resolve(outcome.after)
    if isinstance(now, str):
        return True
    key = IDENTITY.get(part_of(operation["path"]))
    # an insertion before it may have moved an item, so it is looked up among all that the author had
    holder = JsonPointer(operation["path"].rpartition("/")[0]).resolve(outcome.before)
    if key is None:
        return isinstance(now, dict)
    had = {item[key].rstrip("/") for item in holder}
    return operation["value"][key].rstrip("/") in had


@given(policy_sets, pods.requests(), st.integers(0, 2**32))
def test_a_second_pass_changes_nothing(documents: list[Json], review: Json, seed: int) -> None:
    policies = door.policy_set(to_yaml(documents))
    first = door.admit(review, policies)

    second = door.admit(door.again(first, review), policies)
    assert second.operations == []
    assert second.decision.allowed is first.decision.allowed

    changed = corpus.perturbed(
        first.after, random.Random(seed), sidecar=sidecar_is_harmless(documents, first)
    )
    third = door.admit(door.again(first, review, changed), policies)
    assert third.operations == []
    assert third.decision.allowed is first.decision.allowed


def sidecar_is_harmless(documents: list[Json], outcome: door.Outcome) -> bool:
    """False if a policy asks for something in the new container, or if it hides which one is Spark's."""
    text = to_yaml(documents)
    return "All" not in text and corpus.SIDECAR not in text and knows_sparks_container(outcome)


def knows_sparks_container(outcome: door.Outcome) -> bool:
    """True if Spark's container is known by more than being the only one."""
    role = outcome.before["metadata"]["labels"].get("spark-role", "")
    return any(
        container["name"] in spark.CONTAINER_NAMES.get(role, ())
        or any(item["name"] == spark.MARKER_ENV.get(role) for item in container.get("env") or [])
        for container in outcome.before["spec"]["containers"]
    )


@given(policy_sets, pods.requests())
def test_a_sidecar_that_came_later_gets_its_share(documents: list[Json], review: Json) -> None:
    policies = door.policy_set(to_yaml(documents))
    first = door.admit(review, policies)
    assume(knows_sparks_container(first) and corpus.SIDECAR not in to_yaml(documents))

    with_sidecar = corpus.with_sidecar(first.after)
    second = door.admit(door.again(first, review, with_sidecar), policies)

    for operation in second.operations:
        assert operation["path"].startswith("/spec/containers/0/") or operation["path"] == door.STATUS_PATH
    assert second.decision.allowed is first.decision.allowed
    assert door.admit(door.again(second, review), policies).operations == []


@given(policy_sets, pods.requests(), st.randoms(use_true_random=False))
def test_the_order_of_files_means_nothing(
    documents: list[Json], review: Json, random_source: random.Random
) -> None:
    shuffled = list(documents)
    random_source.shuffle(shuffled)

    one = door.admit(copy.deepcopy(review), door.policy_set(to_yaml(documents)))
    other = door.admit(review, door.policy_set(to_yaml(shuffled)))

    assert one.operations == other.operations
    assert one.decision == other.decision


@given(policy_sets, pods.requests())
def test_the_result_is_valid(documents: list[Json], review: Json) -> None:
    outcome = door.admit(review, door.policy_set(to_yaml(documents)))

    assert kubernetes_schema.schema_problems(outcome.after) == kubernetes_schema.schema_problems(
        outcome.before
    )
    if not kubernetes_schema.schema_problems(outcome.before):
        assert door.new_problems(outcome) == []


@given(policy_sets, pods.requests())
def test_variables_come_before_their_users(documents: list[Json], review: Json) -> None:
    outcome = door.admit(review, door.policy_set(to_yaml(documents)))

    for field in ("initContainers", "containers"):
        for container, before in zip(
            outcome.after["spec"].get(field) or [], outcome.before["spec"].get(field) or [], strict=True
        ):
            env, had = container.get("env") or [], {item["name"] for item in before.get("env") or []}
            injected = {item["name"] for item in env} - had
            users = {user.partition(":")[0] for user in kubernetes_schema.used_before_set(env, injected)}
            assert users & had == set(), "a variable of the author's refers to one that comes after it"


@given(policy_sets, pods.requests())
def test_a_denial_changes_nothing_and_says_why(documents: list[Json], review: Json) -> None:
    decision = door.admit(review, door.policy_set(to_yaml(documents))).decision

    reasons = {str(finding.reason) for finding in decision.findings}
    rejecting = {rule for _, rule, _ in items(documents)} & {"Reject"}
    assert decision.allowed is ("ConflictRejected" not in reasons)
    if not decision.allowed:
        assert rejecting
        assert decision.operations == []
        assert any(document["metadata"]["name"] in decision.message for document in documents)
        if decision.role == "executor":
            assert any(document["spec"].get("mandatory") for document in documents)
