"""Placeholders in policy strings: finding them, checking them, filling them in.

Only `{{UPPER_CASE...}}` is a placeholder (Spark's notation); other braces are plain text and `\\{{` stands
for two literal braces. Filling in never evaluates anything: a value is put in as text and not read again.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

PLAIN = ("APP_ID", "APP_NAME", "EXECUTOR_ID", "SPARK_VERSION", "NAMESPACE")
KEYED = ("NAMESPACE_LABEL", "NAMESPACE_ANNOTATION", "POD_LABEL")

_PLACEHOLDER = re.compile(r"\\\{\{|\{\{([A-Z][A-Z0-9_]*)(?::([^{}|]*))?(?:\|([^{}]*))?\}\}")

Lookup = Callable[[str, str], str | None]
"""(name, key) -> value; the key is "" for placeholders without one. None: there is no value."""


class MissingValue(Exception):
    """A placeholder has neither a value nor a default. `args[0]` is the placeholder's name and key."""


def present(text: str) -> bool:
    """True if `fill` would change the text: it holds a placeholder or an escape."""
    return "{{" in text and _PLACEHOLDER.search(text) is not None


def error(text: str) -> str | None:
    """What is wrong with the placeholders of a text, with the nearest right one; None if nothing is."""
    for match in _PLACEHOLDER.finditer(text):
        name, key = match.group(1), match.group(2)
        if name is None:
            continue
        if name in PLAIN:
            if key is not None:
                return f"placeholder {{{{{name}}}}} takes no key: write {{{{{name}}}}}"
        elif name in KEYED:
            if not key:
                return f"placeholder {{{{{name}}}}} needs a key: write {{{{{name}:key}}}}"
        else:
            near = difflib.get_close_matches(name, PLAIN + KEYED, 1)
            hint = f"did you mean {{{{{near[0]}}}}}?" if near else f"known are {', '.join(PLAIN + KEYED)};"
            return f"unknown placeholder {{{{{name}}}}}: {hint} literal braces are written \\{{{{{name}}}}}"
    return None


def names(value: Any) -> Iterator[tuple[str, str]]:
    """(name, key) of every placeholder in the strings of a JSON-like value; ("", "") for an escape."""
    if isinstance(value, str):
        if "{{" in value:
            for match in _PLACEHOLDER.finditer(value):
                yield (match.group(1) or "", match.group(2) or "")
    elif isinstance(value, dict):
        for item in value.values():
            yield from names(item)
    elif isinstance(value, list):
        for item in value:
            yield from names(item)


def fill(value: Any, lookup: Lookup) -> Any:
    """A copy of a JSON-like value with the placeholders of its strings filled in; map keys are left alone.

    Raises:
        MissingValue: a placeholder has no value and no default.
    """
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: _value(match, lookup), value) if "{{" in value else value
    if isinstance(value, dict):
        return {key: fill(item, lookup) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, lookup) for item in value]
    return value


def _value(match: re.Match[str], lookup: Lookup) -> str:
    name, key, default = match.group(1), match.group(2) or "", match.group(3)
    if name is None:
        return "{{"
    found = lookup(name, key)
    if found is None:
        found = default
    if found is None:
        raise MissingValue(f"{name}:{key}" if key else name)
    return found
