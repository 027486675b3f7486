"""Conditions and the record of an earlier pass, which anybody can write: lying about it gains nothing."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml

from tests import corpus, door

Json = dict[str, Any]
REVIEW = "4.3.0/cluster-full-driver"


def policy(name: str, expression: str, label: str, **spec: Any) -> Json:
    """A policy with one condition and one label."""
    match = {"conditions": [{"name": "c", "expression": expression}]} if expression else {}
    return {
        "apiVersion": "sparkwebhook.dev/v1alpha1",
        "kind": "ClusterSparkPodPolicy",
        "metadata": {"name": name},
        "spec": {"match": match, "common": {"labels": {label: "yes"}}, **spec},
    }


def forged(documents: list[Json], verdict: bool | None) -> door.Outcome:
    """Admit a pod whose author claims that an earlier pass found this of all policies' conditions."""
    policies = door.policy_set(yaml.safe_dump_all(documents))
    hashes = [found.hash for found in policies.matching("jobs", {"spark-role": "driver"})]
    review = corpus.review(REVIEW)
    status = json.dumps({"policies": [], "conditions": dict.fromkeys(hashes, verdict)})
    metadata = review["request"]["object"]["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), door.STATUS: status}
    outcome = door.admit(review, policies)
    assert door.admit(door.again(outcome, review), policies).operations == []
    return outcome


@pytest.mark.parametrize("verdict", [False, None])
def test_nobody_escapes_a_mandatory_policy(verdict: bool | None) -> None:
    outcome = forged([policy("must", "has(object.spec)", "must", mandatory=True)], verdict)

    assert outcome.after["metadata"]["labels"]["must"] == "yes"
    assert outcome.decision.findings == []


def test_nobody_gets_what_a_policy_would_give_to_others() -> None:
    outcome = forged([policy("theirs", "!has(object.spec)", "theirs")], True)

    assert "theirs" not in outcome.after["metadata"]["labels"]
    assert [str(found.reason) for found in outcome.decision.findings] == ["ConditionFailed"]


def test_nobody_gets_an_atomic_policy_of_others() -> None:
    outcome = forged([policy("theirs", "!has(object.spec)", "theirs", atomic=True)], True)

    assert "theirs" not in outcome.after["metadata"]["labels"]


def test_a_mandatory_policy_does_not_lose_to_one_that_is_not_for_the_pod() -> None:
    first = policy("theirs", "!has(object.spec)", "a", priority=9, common={"priorityClassName": "theirs"})
    must = policy("must", "", "a", mandatory=True, common={"priorityClassName": "must"}, onConflict="Replace")

    outcome = forged([first, must], True)

    assert outcome.decision.policies == ("must",)
    assert outcome.after["spec"]["priorityClassName"] == "must"


def test_a_policy_that_changed_is_asked_anew() -> None:
    before = door.policy_set(yaml.safe_dump(policy("p", "!has(object.spec)", "a")))
    after = yaml.safe_dump(policy("p", "has(object.spec)", "a"))
    first = door.admit(corpus.review(REVIEW), before)

    second = door.admit(door.again(first, corpus.review(REVIEW)), door.policy_set(after))

    assert second.after["metadata"]["labels"]["a"] == "yes"


def test_what_is_written_by_anybody_breaks_nothing() -> None:
    policies = door.policy_set(yaml.safe_dump(policy("p", "has(object.spec)", "a")))
    for text in ('{"conditions":[]}', '{"conditions":{"a":{}}}', "[]", "{", '{"conditions":null}'):
        review = copy.deepcopy(corpus.review(REVIEW))
        review["request"]["object"]["metadata"]["annotations"] = {door.STATUS: text}
        assert door.admit(review, policies).after["metadata"]["labels"]["a"] == "yes"
