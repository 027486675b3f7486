"""CEL expressions of a policy's conditions: checked and compiled at load, asked for each pod.

The language is that of Kubernetes' matchConditions (https://kubernetes.io/docs/reference/using-api/cel/), but
for Kubernetes' own libraries of functions and what has no bounded cost (webhook.policy.expression_cost). No
error ever holds a value or the evaluator's own text, which quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cel

from webhook.policy import expression_cost
from webhook.policy.expression_cost import MACROS, Unbounded

MAX_LENGTH = 4096
VARIABLES = ("object", "pod", "namespaceObject", "request")

_FUNCTIONS = frozenset(
    {
        *("size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
_TYPES = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map", "type", "null_type"})
_POSITION = re.compile(r"<input>:(\d+):(\d+)")
_IDENTIFIER = re.compile(r"[A-Za-z]\w*")


class InvalidExpression(Exception):
    """What is wrong with an expression, and how to put it right."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression.

    Attributes:
        variables: which of VARIABLES it reads
        words: all names and texts in it: a field of the pod that is not among them is never read
        steps: (longest list or map, size) of what it reads -> what it may cost
    """

    variables: frozenset[str]
    words: frozenset[str]
    steps: Callable[[int, int], int]
    _program: cel.Program

    def evaluate(self, variables: dict[str, Any]) -> Any:
        """The value of the expression.

        Raises:
            Exception: there is none; the text of the error may quote what was read, and must not be shown
        """
        return self._program.execute(variables)


def compile_expression(source: str) -> Expression:
    """Check and compile an expression.

    Raises:
        InvalidExpression: it can't be in force
    """
    if len(source) > MAX_LENGTH:
        raise InvalidExpression(f"must not be longer than {MAX_LENGTH} characters")
    try:
        program = cel.compile(source)
    except ValueError as error:
        raise InvalidExpression(_syntax(str(error))) from None
    try:
        cost = expression_cost.cost(source)
    except Unbounded as error:
        raise InvalidExpression(str(error)) from None
    for name in sorted(set(program.variables()) - cost.bound - _TYPES):
        if name not in VARIABLES:
            raise InvalidExpression(f"unknown variable {name}: known here are {', '.join(VARIABLES)}")
    for name in program.functions():
        if _IDENTIFIER.fullmatch(name) and name not in _FUNCTIONS:
            raise InvalidExpression(f"unknown function {name}: {_instead(name)}")
    for pattern in cost.patterns:
        _check_pattern(pattern)
    return Expression(
        variables=frozenset(program.variables()) & frozenset(VARIABLES),
        words=frozenset(cost.words),
        steps=cost.steps,
        _program=program,
    )


def _check_pattern(pattern: str) -> None:
    try:
        cel.compile(f"''.matches({pattern})").execute()
    except (ValueError, RuntimeError):
        raise InvalidExpression("the pattern of matches is not a regular expression (RE2)") from None


def _syntax(text: str) -> str:
    place = _POSITION.search(text)
    where = f", at its line {place[1]}, column {place[2]}" if place else ""
    if "unsupported syntax" in text:
        return f"uses CEL that is not offered here{where}: write has(a.b) instead of optional values (.?)"
    if "has() macro" in text:
        return f"has() takes a field, as in has(object.spec.priority){where}"
    return f"not a CEL expression{where}: look there for a missing operator, operand, quote or bracket"


def _instead(name: str) -> str:
    if name in MACROS:
        return "it takes one variable and an expression, as in list.exists(x, x == 1)"
    return f"known are {', '.join(sorted(_FUNCTIONS))}, and the macros {', '.join(sorted(MACROS))} and has"


def said(error: Exception) -> str:
    """Why an expression has no value, without any part of what it read."""
    for kind, words in _FAILURES:
        if isinstance(error, kind):
            return words
    return "it can't be evaluated"


_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (KeyError, "it reads a field or key that is not there: ask has(...) or 'key' in ... first"),
    (IndexError, "it reads beyond the end of a list"),
    (TypeError, "it compares or combines values of different types"),
    (ArithmeticError, "a calculation has no result"),
    (RuntimeError, "a function can't take the value that it is given"),
)
