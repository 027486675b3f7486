"""Where an API server and the loader of files differ about one policy, since no schema can help it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import Json, cluster_policy
from webhook.policy.load import load

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.older]


def _volume(size: Any) -> Json:
    return cluster_policy("a", common={"volumes": [{"name": "a", "emptyDir": {"sizeLimit": size}}]})


def test_a_quantity_with_a_fraction_has_to_be_text(cluster: ControlPlane, crds: None) -> None:
    """What is an int or a string has no third type. Only the number is refused, and the message says so."""
    options = ("create", "--dry-run=server", "-f", "-")
    for size in (1.5, "1.5", 2):
        assert not load([("policy", json.dumps(_volume(size)))]).errors
    for size in ("1.5", 2):
        cluster.kubectl(*options, stdin=json.dumps(_volume(size)))
    said = cluster.kubectl(*options, stdin=json.dumps(_volume(1.5)), check=False)
    assert "sizeLimit in body must be of type integer,string" in said.stderr


def test_what_has_no_value_is_not_set(cluster: ControlPlane, crds: None) -> None:
    """A file with a forgotten value is refused; of an object, the API server takes the field away first."""
    document = cluster_policy("a", priority=3, match={"namespaceSelector": None}, common={"env": None})
    assert len(load([("policy", json.dumps(document))]).errors) == 2
    options = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    answer = cluster.kubectl(*options, stdin=json.dumps(document))
    assert json.loads(answer.stdout)["spec"] == {"priority": 3, "match": {}, "common": {}}
    source = cluster_policy("a", common={"volumes": [{"name": "a", "emptyDir": None}]})
    said = cluster.kubectl(*options, stdin=json.dumps(source), check=False)
    assert "needs exactly one of its sources" in said.stderr
