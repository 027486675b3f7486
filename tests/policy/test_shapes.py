"""Kubernetes' types in a policy: what its validation refuses is refused here, at the right place."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import TypeAdapter, ValidationError

from webhook.policy import shape_rules, shapes
from webhook.policy.shapes import Shape
from webhook.policy.values import FILLED

CASES = yaml.safe_load((Path(__file__).parent / "shapes.yaml").read_text(encoding="utf-8"))


def adapter(name: str, *, opened: bool = False) -> TypeAdapter[dict[str, Any]]:
    return TypeAdapter(Annotated[dict[str, Any], Shape(name, open=opened)])


def first_error(found: TypeAdapter[dict[str, Any]], value: Any, context: Any = None) -> tuple[str, str]:
    with pytest.raises(ValidationError) as raised:
        found.validate_python(value, context=context)
    details = raised.value.errors()[0]
    at = details.get("ctx", {}).get("at", ())
    return ".".join(map(str, (*details["loc"], *at))), details["msg"]


@pytest.mark.parametrize("case", CASES["good"], ids=str)
@pytest.mark.parametrize("opened", [False, True])
def test_good(case: dict[str, Any], opened: bool) -> None:
    assert adapter(case["type"], opened=opened).validate_python(case["value"]) == case["value"]


@pytest.mark.parametrize("case", CASES["bad"], ids=str)
def test_bad(case: dict[str, Any]) -> None:
    at, said = first_error(adapter(case["type"]), case["value"])
    assert at == case["at"]
    assert case["message"] in said


def test_an_open_type_lets_new_fields_through_and_still_checks_those_it_knows() -> None:
    pod = adapter("PodSpec", opened=True)
    new = {"newField": [{"a": "{{APP_ID}}"}], "containers": [{"name": "a", "newer": {"b": 1}}]}
    assert pod.validate_python(new) == new
    sources = {"volumes": [{"name": "a", "newSource": {}, "projected": {"sources": [{"newProjection": {}}]}}]}
    assert pod.validate_python(sources) == sources
    assert first_error(pod, {**new, "hostNetwork": "yes"})[0] == "hostNetwork"
    assert first_error(pod, {"volumes": [{"name": "a", "projected": {"sources": [{}]}}]})[0] == (
        "volumes.0.projected.sources.0"
    )


def test_the_texts_of_new_fields_are_looked_at() -> None:
    pod = adapter("PodSpec", opened=True)
    at, said = first_error(pod, {"newField": {"a": ["{{APP_IDD}}"]}})
    assert at == "newField.a.0"
    assert "unknown placeholder" in said
    assert first_error(pod, {"newField": "\0"}, FILLED)[0] == "newField"
    assert pod.validate_python({"newField": "{{APP_IDD}}"}, context=FILLED)


def test_every_rule_is_about_a_field_that_there_is() -> None:
    tables = (shape_rules.RULES, shape_rules.FIXED, shape_rules.CHOICES, shape_rules.RANGES)
    for name in {name for table in tables for name in table}:
        shape, field = re.sub(r"\.\*?$", "", name).split(".")
        assert field in shapes.fields(shape), name
    for table in (shape_rules.EXACTLY_ONE, shape_rules.AT_MOST_ONE):
        for shape, names in table.items():
            assert set(names) <= set(shapes.fields(shape)), shape
    for shape in (*shape_rules.CHECKS, *shape_rules.OPAQUE):
        assert shapes.fields(shape)
