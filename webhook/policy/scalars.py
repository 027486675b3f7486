"""What a YAML scalar means: text, a number, true or false, or nothing. YAML 1.1, as kubectl reads it too.

It must never guess: what only looks like another type is told apart here, so that an error can say so.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor

TAG: Final = "tag:yaml.org,2002:"
MERGE: Final = TAG + "merge"
# Numbers for kubectl (go-yaml), but not for PyYAML, which wants a point and a sign in them.
_EXPONENT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+")


class Timestamp:
    """Stands for what YAML reads as a date: no field is one."""


class UnknownTag(Exception):
    """A tag that is not one of a plain value."""


def tag(event: yaml.ScalarEvent) -> str:
    """The tag that a scalar has, or gets from how it looks."""
    if event.tag not in (None, "!"):
        return str(event.tag)
    if event.implicit[0]:
        for found, pattern in yaml.SafeLoader.yaml_implicit_resolvers.get(event.value[:1], ()):
            if pattern.match(event.value):
                return str(found)
        if _EXPONENT.fullmatch(event.value):
            return TAG + "float"
    return TAG + "str"


def value(tag: str, text: str) -> Any:
    """The plain value of a scalar.

    Raises:
        UnknownTag: no plain value has this tag
        ValueError: the text is not what its tag says
    """
    match tag.removeprefix(TAG):
        case "str" | "value" | "merge":
            text.encode()  # half of a surrogate pair, written as an escape, is a ValueError
            return text
        case "null":
            return None
        case "bool":
            if text.lower() not in SafeConstructor.bool_values:
                raise ValueError("neither true nor false")
            return SafeConstructor.bool_values[text.lower()]
        case "int":
            return int(_CONSTRUCTOR.construct_yaml_int(yaml.ScalarNode(tag, text)))
        case "float":
            return float(_CONSTRUCTOR.construct_yaml_float(yaml.ScalarNode(tag, text)))
        case "timestamp":
            return Timestamp()
    raise UnknownTag(tag)


_CONSTRUCTOR = SafeConstructor()
