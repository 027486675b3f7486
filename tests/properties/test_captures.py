"""Every recorded pod and review against the policies of every case.

By default each case meets one in STRIDE requests, beginning at another one each, so that every request
meets several cases; HYPOTHESIS_PROFILE=deep lets all of them meet all.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import settings

from tests import corpus, door, kubernetes_schema
from tests.test_cases import CASES, FILES, read

STRIDE = 1 if settings.get_current_profile_name() == "deep" else 17
REQUESTS = corpus.every_request()


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(CASES).with_suffix("")))
def test_recorded_pods(file: Path) -> None:
    policies = door.policy_set(read(file).policies)

    for name in REQUESTS[FILES.index(file) % STRIDE :: STRIDE]:
        review = corpus.request_of(name)
        first = door.admit(review, policies)

        assert kubernetes_schema.rule_problems(first.after) == kubernetes_schema.rule_problems(
            first.before
        ), name
        second = door.admit(door.again(first, review), policies)
        assert second.operations == [], name
        assert second.decision.allowed is first.decision.allowed, name


def test_a_reinvocation_sees_the_same_pod_that_another_webhook_has_changed() -> None:
    """The recorded first and second review of one pod, between which another webhook added a container."""
    policies = door.policy_set(read(CASES / "secrets" / "plain.yaml").policies)
    first = door.admit(corpus.review("special/reinvocation-after-sidecar-1"), policies)
    later = corpus.review("special/reinvocation-after-sidecar-2")

    merged = orjson.loads(orjson.dumps(first.after))
    merged["spec"]["containers"] = [
        *later["request"]["object"]["spec"]["containers"][1:],
        *merged["spec"]["containers"],
    ]
    again = door.admit(door.again(first, later, merged), policies)

    assert len(merged["spec"]["containers"]) == 2
    assert again.operations == []
