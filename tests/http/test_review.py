"""What the server leaves out before it decodes a body: managedFields, where an API server put them, only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import corpus
from webhook.review import without_managed_fields


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize("name", corpus.pod_reviews())
def test_a_recorded_body_loses_its_managed_fields_and_nothing_else(name: str) -> None:
    review = corpus.review(name)
    kept = json.loads(without_managed_fields(compact(review)))
    del review["request"]["object"]["metadata"]["managedFields"]
    assert kept == review


@pytest.mark.parametrize(
    "value",
    [
        {"text": ',"managedFields":[1]},"spec":{'},
        {"a": 1, "managedFields": [1], "b": {"spec": {}}},
        {"a": 1, "managedFields": "text", "spec": {}},
        {"extra": {"a": ["b"], "managedFields": ["x"]}, "object": {"metadata": {"a": [1]}, "spec": {"b": 1}}},
        {"a": {"b": 1, "managedFields": [{"metadata": {"c": [1]}}]}, "spec": {"d": 1}},
    ],
)
def test_what_only_looks_like_them_stays(value: dict[str, Any]) -> None:
    assert json.loads(without_managed_fields(compact(value))) == value


@pytest.mark.parametrize("body", [b"", b',"managedFields":[', b']},"spec":{,"managedFields":[', b"\xff"])
def test_anything_else_stays_as_it_is(body: bytes) -> None:
    assert without_managed_fields(body) == body
