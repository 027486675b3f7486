"""Whatever a file holds, loading it gives policies or errors at places that exist, and never an exception."""

from __future__ import annotations

import re
from typing import Any

import orjson
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policy.test_load_cases import DATA
from webhook.policy.load import Loaded, load

GOOD = (DATA / "everything.yaml").read_text(encoding="utf-8")
WORDS = sorted(set(re.findall(r"[\w.-]+", GOOD)))
HEAD = {
    "apiVersion": "sparkwebhook.dev/v1alpha1",
    "kind": "ClusterSparkPodPolicy",
    "metadata": {"name": "a"},
}
FEATURES = ["secrets", "configMaps", "volumes", "env", "envFrom", "hadoop", "labels", "tolerations"]
PIECES = [
    "\n",
    " ",
    "  ",
    "\t",
    "- ",
    ": ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "#",
    "&a ",
    "*a",
    "<<: ",
    "!!str ",
    "!x ",
    "'",
    '"',
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(WORDS)
    | st.dates()
)
keys = st.sampled_from(WORDS) | st.text(max_size=5) | st.integers() | st.booleans() | st.none()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)


def check(text: str) -> Loaded:
    """Loads a text and checks what must hold for every text."""
    loaded = load([("a.yaml", text), ("b.yaml", GOOD)])
    lines = re.split("\r\n|[\n\r\x85\u2028\u2029]", text.removeprefix("\ufeff"))
    for problem in (*loaded.errors, *loaded.notes):
        if problem.file == "a.yaml":
            assert 1 <= problem.line <= len(lines), problem
            assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1, problem
        assert str(problem).isprintable()
    for policy in loaded.policies:
        orjson.dumps(policy.model_dump(mode="json"))
    return loaded


@settings(deadline=None)
@given(st.text())
def test_any_text(text: str) -> None:
    check(text)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.sampled_from(WORDS), max_size=60).map("".join))
def test_pieces_of_yaml(text: str) -> None:
    check(text)


@settings(deadline=None)
@given(values)
def test_any_values(value: Any) -> None:
    check(yaml.dump(value, allow_unicode=True))


@settings(deadline=None)
@given(values, st.sampled_from(["common", "driver", "executor", "match", "priority"]))
def test_any_values_inside_of_a_policy(value: Any, field: str) -> None:
    document = {**HEAD, "spec": {field: value}}
    check(yaml.dump(document))


@settings(deadline=None)
@given(values, st.sampled_from(FEATURES))
def test_any_values_as_a_feature(value: Any, field: str) -> None:
    document = {**HEAD, "spec": {"common": {field: value if field in ("hadoop", "labels") else [value]}}}
    check(yaml.dump(document))


@settings(deadline=None)
@given(st.data())
def test_a_good_policy_with_pieces_changed(data: st.DataObject) -> None:
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        text = (
            text[:start]
            + data.draw(st.sampled_from(PIECES) | st.sampled_from(WORDS) | st.just(""))
            + text[end:]
        )
    check(text)
