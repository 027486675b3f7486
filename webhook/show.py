"""Kubernetes objects as text and back: YAML, JSON, differences.

YAML is read and written as kubectl does it, not as PyYAML would: what kubectl reads as text is text here
(`12:30:45`, `2026-01-01`), and text is quoted whenever any of the two would take it for something else
(`on`, `y`, `1e3`, `1.0`). It must never change an object, and reads no file itself.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

_BOOL, _INT, _FLOAT, _STR, _MERGE = (
    f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "str", "merge")
)
_KUBECTL = (
    (_BOOL, re.compile(r"^(?:y|Y|n|N|(?i:yes|no|on|off|true|false))$"), "yYnNoOtTfF"),
    (_INT, re.compile(r"^[-+]?(?:0b[01_]+|0|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*)$"), "-+0123456789"),
    (
        _FLOAT,
        re.compile(r"^[-+]?(?:(?:\.[0-9]+|[0-9][0-9_]*\.?[0-9]*)(?:[eE][-+]?[0-9]+)?|\.(?i:inf|nan))$"),
        "-+.0123456789",
    ),
)
# Line breaks that YAML 1.1 and 1.2 do not agree on, and those that a block would not keep.
_ODD_BREAKS = re.compile("[\r\x85\u2028\u2029]")


class _Loader(yaml.SafeLoader):
    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (_STR, _MERGE):
                raise _error("a key that is not text: put it in quotes", key)
            if key.value in seen:
                raise _error(f"the key {key.value!r} is there twice", key)
            seen.add(key.value)
        return node


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = '"' if _ODD_BREAKS.search(value) else "|" if "\n" in value else None
    return dumper.represent_scalar(_STR, value, style)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag.endswith((":null", ":merge"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _tag, _regexp, _first in _KUBECTL:
    _Loader.add_implicit_resolver(_tag, _regexp, list(_first))
    _Dumper.add_implicit_resolver(_tag, _regexp, list(_first))
_Dumper.add_representer(str, _text)


def parse(text: str) -> list[Any]:
    """The documents of a YAML or JSON text as plain JSON values; empty documents are left out.

    Raises:
        ValueError: neither YAML nor JSON, a key twice, or a value that JSON does not have; the message names
            the line where it can.
    """
    try:
        return [json.loads(text, parse_constant=_no_json)]
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        pass  # then it may still be YAML, whose messages name the place
    try:
        documents = list(yaml.load_all(text, _Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem or error.context}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(str(error).splitlines()[0]) from None
    try:
        # also makes copies of what anchors share: an object is changed in place later
        return [json.loads(json.dumps(item, allow_nan=False)) for item in documents if item is not None]
    except (TypeError, ValueError) as error:
        raise ValueError(f"holds a value that JSON does not have: {error}") from None


def to_yaml(value: Any) -> str:
    """Block-style YAML in the order of the keys; reads back as the same value, by kubectl too."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=2**31)


def to_json(value: Any) -> str:
    """Indented JSON in the order of the keys."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_json_lines(values: list[Any]) -> str:
    """A JSON array with a line for each item."""
    items = ",\n".join(f"  {json.dumps(value, ensure_ascii=False)}" for value in values)
    return f"[\n{items}\n]\n" if values else "[]\n"


def lines(text: str) -> list[str]:
    """The lines of a text of this module: of all that Unicode calls a line break, only newlines are one."""
    return text.removesuffix("\n").split("\n")


def diff(before: Any, after: Any, old: str, new: str, context: int = 3) -> Iterator[str]:
    """The lines of a unified diff of two values as YAML, without line ends; none if they are equal."""
    yield from difflib.unified_diff(
        lines(to_yaml(before)),
        lines(to_yaml(after)),
        old,
        new,
        lineterm="",
        n=context,
    )
