"""Kubernetes types as pydantic sees them: raw dicts whose fields are checked one by one.

The types come from kubernetes.json (tools/kubernetes_shapes.py writes it). A checked value is a plain dict
with exactly the keys that were written: no default is filled in and no object is built. A field that is not
known is an error, unless the type is open. What is checked beyond the types stands in shape_rules.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Any, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from webhook.policy import shape_rules, values

_SHAPES: dict[str, dict[str, Any]] = json.loads(
    resources.files("webhook.policy").joinpath("kubernetes.json").read_text(encoding="utf-8")
)["shapes"]

EXACTLY_ONE = "x-exactly-one"
"""In a JSON schema: the names of fields of which one has to be there, and only one."""


OPAQUE = "x-opaque"
"""In a JSON schema: a CRD does not describe this object."""
OPEN = "x-open"
"""In a JSON schema: fields that are not known are let through."""


class Shape:
    """Annotates a `dict[str, Any]` with the Kubernetes type that it must have.

    Args:
        name: of the type
        open: fields that it does not know, at any depth, are let through as they are: a cluster may be newer
    """

    def __init__(self, name: str, *, open: bool = False) -> None:  # noqa: A002 - the word for it
        self.name = name
        self.open = open

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return _dumped_as_it_is(_Reader(self.open).object(self.name))


class FieldOf:
    """Annotates a field with the type it has in a Kubernetes type."""

    def __init__(self, shape: str, field: str) -> None:
        self.shape = shape
        self.field = field

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        kind = _SHAPES[self.shape]["fields"][self.field]
        return _dumped_as_it_is(_Reader(False).kind(kind, f"{self.shape}.{self.field}"))


def fields(shape: str) -> tuple[str, ...]:
    """The field names of a Kubernetes type."""
    return tuple(_SHAPES[shape]["fields"])


def _dumped_as_it_is(schema: CoreSchema) -> CoreSchema:
    return cast("CoreSchema", {**schema, "serialization": core_schema.simple_ser_schema("any")})


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes pydantic's schemas of kubernetes.json's types; `name` is a rule's name, as in shape_rules.py."""

    open: bool

    def object(self, shape: str) -> CoreSchema:
        """The schema of a type with fields."""
        definition = _SHAPES[shape]
        required = definition.get("required", ())
        extra: dict[str, Any] = {}
        if shape in shape_rules.OPAQUE or self.open:
            extra[OPAQUE] = True
        if self.open:
            extra[OPEN] = True
        schema: CoreSchema = core_schema.typed_dict_schema(
            {
                field: core_schema.typed_dict_field(
                    self.kind(kind, f"{shape}.{field}"), required=field in required
                )
                for field, kind in definition["fields"].items()
            },
            extra_behavior="allow" if self.open else "forbid",
            extras_schema=_unknown_value() if self.open else None,
            strict=True,
        )
        if names := shape_rules.EXACTLY_ONE.get(shape):
            schema = _checked(schema, _exactly_one(names, frozenset(definition["fields"])))
            extra[EXACTLY_ONE] = list(names)
        if names := shape_rules.AT_MOST_ONE.get(shape):
            schema = _checked(schema, _at_most_one(names))
        if check := shape_rules.CHECKS.get(shape):
            schema = _checked(schema, _passing(check))
        return cast("CoreSchema", {**schema, "metadata": {"pydantic_js_extra": extra}} if extra else schema)

    def kind(self, kind: Any, name: str) -> CoreSchema:
        """The schema of a field's type."""
        match kind:
            case [item]:
                return core_schema.list_schema(self.kind(item, name), strict=True)
            case {"*": value}:
                return core_schema.dict_schema(_key(f"{name}."), self.kind(value, f"{name}.*"), strict=True)
            case "string":
                return _text(name)
            case "boolean":
                return core_schema.bool_schema(strict=True)
            case "int32" | "int64":
                least, most = _range(kind, name)
                return core_schema.int_schema(strict=True, ge=least, le=most)
            case "quantity":
                number = core_schema.float_schema(strict=True, allow_inf_nan=False, ge=0, le=values.INT64_MAX)
                return _text_or(number, values.quantity)
            case "intOrString":
                least, most = _range("int32", name)
                whole = core_schema.int_schema(strict=True, ge=least, le=most)
                return _text_or(whole, shape_rules.RULES.get(name))
            case str():
                return self.object(kind)
        raise ValueError(f"kubernetes.json has a type that is not known here: {kind}")


def _range(kind: str, name: str) -> tuple[int, int]:
    most = values.INT32_MAX if kind == "int32" else values.INT64_MAX
    return shape_rules.RANGES.get(name, (-most - 1, most))


def _text(name: str) -> CoreSchema:
    if choices := shape_rules.CHOICES.get(name):
        return core_schema.literal_schema(list(choices))
    if fixed := shape_rules.FIXED.get(name):
        return _literal_text(fixed)
    return _checked_text(shape_rules.RULES.get(name))


def _key(name: str) -> CoreSchema:
    """A map's key: placeholders in keys are not filled in, so those that have a rule hold none."""
    rule = shape_rules.RULES.get(name)
    return _literal_text(rule) if rule else _checked_text(None)


def _literal_text(check: values.Rule) -> CoreSchema:
    return values.literal(check).applied_to(core_schema.str_schema(strict=True))


def _checked_text(check: values.Rule | None) -> CoreSchema:
    checked = values.rule(check) if check else values.Checked(values.check_text, {})
    return checked.applied_to(core_schema.str_schema(strict=True))


def _text_or(number: CoreSchema, check: values.Rule | None) -> CoreSchema:
    """A text or a number; a number stays as it is written (a float schema would make 1.0 of 1)."""
    as_written = core_schema.no_info_wrap_validator_function(_keep, number)
    return core_schema.tagged_union_schema(
        {"text": _checked_text(check), "number": as_written}, _text_or_number
    )


def _text_or_number(value: Any) -> str:
    return "text" if isinstance(value, str) else "number"


def _keep(value: Any, validate: core_schema.ValidatorFunctionWrapHandler) -> Any:
    validate(value)
    return value


def _unknown_value() -> CoreSchema:
    """The value of a field that is not known: only its texts can be looked at."""

    def validate(value: Any, info: core_schema.ValidationInfo) -> Any:
        waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
        while waiting:
            path, found = waiting.pop()
            if isinstance(found, str):
                if problem := values.any_text_error(found, filled=bool(info.context)):
                    raise values.fault(problem, *path)
            elif isinstance(found, dict):
                waiting += (((*path, str(key)), inner) for key, inner in found.items())
            elif isinstance(found, list):
                waiting += (((*path, index), inner) for index, inner in enumerate(found))
        return value

    return core_schema.with_info_after_validator_function(validate, core_schema.any_schema())


def exactly_one(names: Iterable[str]) -> Any:
    """The CEL rule that one of these fields is there and no other of them."""
    names = list(names)
    stated = ", ".join(f"has(self.{name})" for name in names)
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) < 6 else "its sources"
    return {
        "rule": f"[{stated}].filter(stated, stated).size() == 1",
        "message": f"needs exactly one of {listed}",
    }


def _checked(schema: CoreSchema, check: Callable[[dict[str, Any]], dict[str, Any]]) -> CoreSchema:
    return core_schema.no_info_after_validator_function(check, schema)


def _passing(check: shape_rules.Check) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def validate(value: dict[str, Any]) -> dict[str, Any]:
        check(value)
        return value

    return validate


def _exactly_one(names: tuple[str, ...], known: frozenset[str]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def validate(value: dict[str, Any]) -> dict[str, Any]:
        found = sum(name in value for name in names)
        # A field that is not known (in an open type) may be a new one of them.
        if found > 1 or (not found and value.keys() <= known):
            raise values.fault(f"needs exactly one of {', '.join(names)}")
        return value

    return validate


def _at_most_one(names: tuple[str, ...]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def validate(value: dict[str, Any]) -> dict[str, Any]:
        found = [name for name in names if value.get(name, "") != ""]
        if len(found) > 1:
            raise values.fault(f"{' and '.join(found)} exclude each other: keep one", found[1])
        return value

    return validate
