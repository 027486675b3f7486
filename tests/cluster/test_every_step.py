"""What the API server's own validation says of pods that policies of every kind have changed.

The pods are made by the same admission as everywhere, then created as they came out.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests import corpus, door
from tests.cluster.control_plane import ControlPlane
from tests.cluster.creation import created, needed, new_pod
from tests.cluster.objects import Json
from tests.every_step import TEXT
from tests.properties import pods as random_pods
from tests.properties.policies import to_yaml, wide_policy_sets

pytestmark = pytest.mark.xdist_group("cluster")

EVERY, RANDOM = "every-step", "random-policies"


def test_every_recorded_pod_with_every_step_is_accepted(cluster: ControlPlane) -> None:
    policies = door.policy_set(TEXT)
    authors, pods = [], []
    for number, name in enumerate(corpus.every_request()):
        review = corpus.request_of(name)
        first = door.admit(review, policies)
        assert first.operations, name
        assert door.admit(door.again(first, review), policies).operations == [], name
        authors.append(new_pod(first.before, EVERY, number))
        pods.append(new_pod(first.after, EVERY, number))
    _assert_accepted(cluster, authors, pods, dry_run=False, policies={})


def test_random_policies_make_no_pod_invalid(cluster: ControlPlane) -> None:
    authors: list[Json] = []
    pods: list[Json] = []
    policies: dict[str, str] = {}

    @settings(max_examples=400)
    @given(wide_policy_sets, random_pods.requests())
    def admit(documents: list[Json], review: Json) -> None:
        text = to_yaml(documents)
        outcome = door.admit(review, door.policy_set(text))
        if outcome.operations:
            policies[f"pod/pod-{len(pods)}"] = text
            authors.append(new_pod(outcome.before, RANDOM, len(pods)))
            pods.append(new_pod(outcome.after, RANDOM, len(pods)))

    admit()
    _assert_accepted(cluster, authors, pods, dry_run=True, policies=policies)


def _assert_accepted(
    cluster: ControlPlane, authors: list[Json], pods: list[Json], *, dry_run: bool, policies: dict[str, str]
) -> None:
    cluster.namespace(pods[0]["metadata"]["namespace"], {})
    cluster.apply(*needed(pods))
    accepted, _ = created(cluster, authors, "--dry-run=server")
    assert len(accepted) > len(authors) * 0.9
    also, errors = created(cluster, pods, *(["--dry-run=server"] if dry_run else []))
    refused = accepted - also
    assert refused == set(), "\n".join([errors, *(policies.get(name, "") for name in sorted(refused)[:3])])
