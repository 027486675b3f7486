"""What is promised for policies of every field, and every pod: validity, and a second pass without a
patch."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from tests import corpus, door, kubernetes_schema
from tests.properties import pods
from tests.properties.policies import to_yaml, wide_policy_sets

Json = dict[str, Any]


@given(wide_policy_sets, pods.requests())
def test_every_result_is_valid_and_final(documents: list[Json], review: Json) -> None:
    policies = door.policy_set(to_yaml(documents))
    first = door.admit(review, policies)
    assert kubernetes_schema.rule_problems(first.after) == kubernetes_schema.rule_problems(first.before)

    second = door.admit(door.again(first, review), policies)
    assert second.operations == []
    assert second.decision.allowed is first.decision.allowed

    defaulted = corpus.defaulted(first.after, review["request"]["namespace"])
    third = door.admit(door.again(first, review, defaulted), policies)
    assert third.operations == []
