"""Placeholders everywhere a string stands: taken and filled in, or refused with a word on why."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests import corpus, door
from tests.every_step import TEXT
from webhook.policy.load import load

Json = dict[str, Any]
Path = tuple[str | int, ...]

POLICY: Json = yaml.safe_load(TEXT)
PLACEHOLDER = "{{NAMESPACE_ANNOTATION:example.com/filler}}"
# Names by which parts of a policy and containers find each other before any pod is there.
FIXED = {"javaAgents", "initContainers", "sidecars", "podTemplate"}


def strings(value: Any, path: Path) -> Iterator[Path]:
    """The paths of all strings that are values."""
    if isinstance(value, str):
        yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield from strings(inner, (*path, key))


PLACES = [
    place
    for block in ("common", "driver", "executor")
    for place in strings(POLICY["spec"][block], ("spec", block))
]


def at(document: Json, path: Path) -> Any:
    value: Any = document
    for part in path:
        value = value[part]
    return value


def with_placeholder(place: Path) -> Json:
    document = copy.deepcopy(POLICY)
    at(document, place[:-1])[place[-1]] = PLACEHOLDER
    return document


def admitted(document: Json, role: str, value: str | None) -> door.Outcome:
    """What becomes of a bare pod in a namespace whose annotation has this value."""
    annotations = {} if value is None else {"example.com/filler": value}
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "jobs", "annotations": annotations},
    }
    review = corpus.review(f"4.3.0/cluster-bare-{role}")
    review["request"]["namespace"] = review["request"]["object"]["metadata"]["namespace"] = "jobs"
    return door.admit(review, door.policy_set(f"{json.dumps(namespace)}\n---\n{json.dumps(document)}"))


def without_status(outcome: door.Outcome) -> Json:
    pod = copy.deepcopy(outcome.after)
    del pod["metadata"]["annotations"][door.STATUS]
    return pod


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_it_is_filled_in_or_refused(place: Path) -> None:
    document = with_placeholder(place)
    loaded = load([("policy.json", json.dumps(document))])
    if loaded.errors:
        (error,) = loaded.errors
        fixed = place[2] in FIXED and place[-1] == "name"
        assert error.message.startswith("placeholders can't be used here" if fixed else "must be ")
        return

    role = "executor" if place[1] == "executor" else "driver"
    value = at(POLICY, place)
    if "{{" not in value:
        outcome = admitted(document, role, value)
        assert without_status(outcome) == without_status(admitted(POLICY, role, value))
    missing = admitted(document, role, None)
    assert "NoValue" in {str(finding.reason) for finding in missing.decision.findings}
