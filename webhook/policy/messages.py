"""What the model says about a document, in the words of people who write YAML.

It must never show a value, nor a word of the validation library.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from webhook.policy.model import Policy
from webhook.policy.positions import Fault, Node, Path
from webhook.policy.role_block import RoleBlock
from webhook.policy.scalars import Timestamp
from webhook.policy.values import FILE_MODE_MAX

# Parts of an error's location that name a branch of a union instead of a place in the document.
_BRANCHES = frozenset({"word", "names", "text", "number"})
_KEY = "[key]"
_LISTED_AT_MOST = 15

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "text or a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_UNQUOTED = {
    "true or false": re.compile("true|false", re.IGNORECASE),
    "a whole number": re.compile(r"-?\d+", re.ASCII),
}


def faults(error: ValidationError, root: Node) -> Iterator[Fault]:
    """The model's errors, each with its position in the document."""
    for details in error.errors(include_url=False):
        yield _fault(details, root)


def fault(root: Node, path: Path, message: str, *, at_key: bool = False) -> Fault:
    """A fault at the position of the path's value or key; of a missing part, where it should stand."""
    line, column, place, _ = _locate(root, path, at_key)
    return Fault(line, column, place, message)


def near(word: str, known: list[str]) -> str:
    """`did you mean "..."?` or, if nothing is like it, the words that are known, as far as they are few."""
    by_lower = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), by_lower, 1)
    if found:
        return f'did you mean "{by_lower[found[0]]}"?'
    return f"known here are {', '.join(sorted(known))}" if 0 < len(known) <= _LISTED_AT_MOST else ""


def _locate(root: Node, path: Path, at_key: bool) -> tuple[int, int, Path, Node | None]:
    """Line, column, the path without branches of unions, and the node there if it exists."""
    node: Node | None = root
    line, column = root.line, root.column
    place: list[str | int] = []
    for part in path:
        children = node.children if node else None
        if isinstance(children, dict) and isinstance(part, str) and part in children:
            key_line, key_column, node = children[part]
            line, column = (key_line, key_column) if at_key else (node.line, node.column)
        elif isinstance(children, list) and isinstance(part, int) and part < len(children):
            node = children[part]
            line, column = node.line, node.column
        elif part in _BRANCHES:
            continue
        else:
            node = None
        place.append(part)
    return line, column, tuple(place), node


def _fault(details: ErrorDetails, root: Node) -> Fault:
    path, kind, context = details["loc"], details["type"], details.get("ctx", {})
    at_key = kind == "extra_forbidden"
    if path and path[-1] == _KEY:
        path, at_key = path[:-1], True
    if kind == "policy":
        return fault(root, (*path, *context["at"]), context["message"], at_key=at_key)
    line, column, place, node = _locate(root, path, at_key)
    return Fault(line, column, place, _message(kind, context, place, node))


def _message(kind: str, context: dict[str, Any], place: Path, node: Node | None) -> str:
    match kind:
        case "extra_forbidden":
            return _unknown(place)
        case "missing":
            return "is missing, but required"
        case "literal_error" | "enum":
            return _choice(str(context["expected"]), place, node)
        case "greater_than_equal":
            return f"must not be less than {int(context['ge'])}"
        case "less_than_equal":
            most = int(context["le"])
            return f"must not be greater than {most}" + (
                f" (0{most:o} octal)" if most == FILE_MODE_MAX else ""
            )
        case "finite_number":
            return "must be a finite number"
        case "too_short":
            return "must not be empty: name at least one"
        case "too_long":
            return f"must not have more than {context['max_length']} entries"
    wanted = _WANTED.get(kind)
    return _wrong_type(wanted, node.value) if wanted and node else "not a valid value"


def _unknown(place: Path) -> str:
    word = str(place[-1])
    if place[:-1] == ("spec",) and word in RoleBlock.model_fields:
        return "unknown field: it belongs into common, driver or executor"
    hint = near(word, _fields(place[:-1]))
    return f"unknown field, {hint}" if hint else "unknown field"


def _choice(expected: str, place: Path, node: Node | None) -> str:
    known = [word.strip("'") for word in expected.replace(" or ", ", ").split(", ")]
    words = [word or '""' for word in known]
    if place[-1:] == ("containers",):
        words.append("a list of container names")
    said = f"must be {', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else f"must be {words[0]}"
    if node and isinstance(node.value, str):
        found = difflib.get_close_matches(node.value.lower(), [word.lower() for word in known], 1)
        right = [word for word in known if found and word.lower() == found[0]]
        return f'{said}, did you mean "{right[0]}"?' if right and len(words) > 1 else said
    return said


def _wrong_type(wanted: str, value: Any) -> str:
    found, fix = _describe(value), ""
    if value is None:
        fix = "give it a value, or remove the line"
    elif wanted == "text" and not isinstance(value, (list, dict)):
        fix = "put it in quotes"
    elif wanted == "a list" and isinstance(value, (str, dict)):
        fix = "begin each entry with '- '"
    elif wanted == "a whole number" and isinstance(value, float):
        found = "is a fraction"
    elif wanted == "a mapping" and isinstance(value, list):
        fix = "write key: value, without '- '"
    elif isinstance(value, str) and (form := _UNQUOTED.get(wanted)) and form.fullmatch(value):
        fix = "remove the quotes"
    return f"must be {wanted}, but {found}" + (f": {fix}" if fix else "")


def _describe(value: Any) -> str:
    match value:
        case None:
            return "is empty"
        case bool():
            return "YAML reads this as true or false"
        case int() | float():
            return "YAML reads this as a number"
        case Timestamp():
            return "YAML reads this as a date"
        case str():
            return "is text"
        case list():
            return "is a list"
    return "is a mapping"


def _fields(path: Path) -> list[str]:
    """The fields that the model knows at a path."""
    schema = _schema()
    found = [schema]
    for part in path:
        found = [step for option in found for step in _step(option, part, schema)]
    return [name for option in found for name in option.get("properties", {})]


def _step(option: dict[str, Any], part: str | int, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = option.get("items") if isinstance(part, int) else option.get("properties", {}).get(part)
    if isinstance(inner, dict):
        yield from _options(inner, schema)


def _options(option: dict[str, Any], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if reference := option.get("$ref"):
        option = schema["$defs"][reference.rsplit("/", 1)[1]]
    yield option
    for other in (*option.get("anyOf", ()), *option.get("oneOf", ())):
        yield from _options(other, schema)


@cache
def _schema() -> dict[str, Any]:
    return Policy.model_json_schema()
