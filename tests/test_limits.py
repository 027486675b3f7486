"""The sizes that Kubernetes allows: all annotations together, the status annotation, the warnings."""

from __future__ import annotations

from typing import Any

import pytest

from tests import corpus, door, kubernetes_schema
from webhook.policy.policy_set import PolicySet

Json = dict[str, Any]


def annotated(length: int) -> Json:
    """A driver's review whose annotations have this many bytes together."""
    review = corpus.review("4.3.0/cluster-bare-driver")
    review["request"]["object"]["metadata"]["annotations"] = {"example.com/big": "ü" * ((length - 15) // 2)}
    return review


def policies(spec: str) -> PolicySet:
    return door.policy_set(
        "apiVersion: sparkwebhook.dev/v1alpha1\n"
        f"kind: ClusterSparkPodPolicy\nmetadata: {{name: p}}\nspec: {spec}\n"
    )


def total(outcome: door.Outcome) -> int:
    found = outcome.after["metadata"]["annotations"].items()
    return sum(len(key.encode()) + len(value.encode()) for key, value in found)


def test_an_annotation_that_does_not_fit_is_skipped() -> None:
    review = annotated(kubernetes_schema.ANNOTATIONS_LIMIT - 3000)
    asked = policies(f"{{common: {{annotations: {{a: {'x' * 4000}}}, labels: {{owner: lake}}}}}}")

    outcome = door.admit(review, asked)

    assert [str(finding.reason) for finding in outcome.decision.findings] == ["AnnotationsTooLarge"]
    assert "a" not in outcome.after["metadata"]["annotations"]
    assert outcome.after["metadata"]["labels"]["owner"] == "lake"
    assert total(outcome) <= kubernetes_schema.ANNOTATIONS_LIMIT
    assert door.admit(door.again(outcome, review), asked).operations == []


@pytest.mark.parametrize("room", [0, 1, 30, 150, 500])
def test_the_status_never_makes_the_annotations_too_large(room: int) -> None:
    review = annotated(kubernetes_schema.ANNOTATIONS_LIMIT - room)
    asked = policies("{common: {labels: {owner: lake}, env: [{name: A, value: b}]}}")

    outcome = door.admit(review, asked)

    assert outcome.after["metadata"]["labels"]["owner"] == "lake"
    assert total(outcome) <= kubernetes_schema.ANNOTATIONS_LIMIT
    assert door.admit(door.again(outcome, review), asked).operations == []


def test_annotations_of_the_policy_and_the_status_share_the_room() -> None:
    review = annotated(kubernetes_schema.ANNOTATIONS_LIMIT - 1000)
    asked = policies(f"{{common: {{annotations: {{a: {'x' * 950}}}, labels: {{owner: lake}}}}}}")

    outcome = door.admit(review, asked)

    assert total(outcome) <= kubernetes_schema.ANNOTATIONS_LIMIT
    assert door.admit(door.again(outcome, review), asked).operations == []


@pytest.mark.parametrize("count", [10, 60, 400])
def test_many_features_and_conflicts(count: int) -> None:
    review = corpus.review("4.3.0/cluster-bare-driver")
    env = review["request"]["object"]["spec"]["containers"][0]["env"]
    env += [{"name": f"VARIABLE_{number}", "value": "theirs"} for number in range(count)]
    items = ", ".join(f"{{name: VARIABLE_{number}, value: ours}}" for number in range(2 * count))
    asked = policies(f"{{common: {{env: [{items}]}}}}")

    outcome = door.admit(review, asked)

    assert len(outcome.decision.findings) == count
    assert len(outcome.operations) == count + 1
    assert outcome.status["policies"][0]["name"] == "p"
    assert outcome.decision.warnings()[0].startswith("ConflictKept: policy p spec.common.env[0]")
    assert door.admit(door.again(outcome, review), asked).operations == []


def test_names_of_any_length_leave_warnings_readable() -> None:
    name = ".".join(["a-long-name-of-a-policy"] * 10)
    asked = door.policy_set(
        "apiVersion: sparkwebhook.dev/v1alpha1\n"
        f"kind: ClusterSparkPodPolicy\nmetadata: {{name: {name}}}\n"
        "spec: {common: {labels: {team: lake}}}\n"
    )

    warnings = door.admit(corpus.review("4.3.0/cluster-full-driver"), asked).decision.warnings()

    assert len(warnings) == 1
    assert "ConflictKept" in warnings[0]
    assert "common.labels[team]" in warnings[0]
