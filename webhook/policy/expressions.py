"""CEL expressions of a policy's conditions: checked and compiled at load, asked for each pod.

The language is that of Kubernetes' matchConditions (https://kubernetes.io/docs/reference/using-api/cel/), but
for Kubernetes' own libraries of functions. The evaluator has no limit of cost, so an expression is refused
at load if it can't be bounded: macros nest at most twice, `map` is not offered, patterns are literal. Then
what it may cost follows from what it reads, and is known before it is evaluated (`Expression.cost`). No
error ever holds a value or the library's own text, which quotes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import cel

MAX_LENGTH = 4096
VARIABLES = ("object", "pod", "namespaceObject", "request")

_MACROS = frozenset({"all", "exists", "exists_one", "filter"})
_MAX_NESTED = 2
_FUNCTIONS = frozenset(
    {
        *("size", "contains", "startsWith", "endsWith", "matches", "type", "dyn"),
        *("int", "uint", "double", "string", "bytes", "timestamp", "duration"),
        *("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"),
        *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
    }
)
_TYPES = frozenset({"int", "uint", "double", "bool", "string", "bytes", "list", "map", "type", "null_type"})
# What a pattern costs: it is compiled each time. A counted group could make it big beyond its length.
_PATTERN_COST = 500
_BIG_PATTERN = re.compile(r"\)\s*\{|\{[0-9]*,?[0-9]{3,}")
_TOKEN = re.compile(
    r"""(?P<text>(?:[rR][bB]?|[bB][rR])(?:"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
        |(?P<comment>//[^\n]*)|(?P<name>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<mark>\S)""",
    re.VERBOSE,
)
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
        entries: commas in it: no list that it writes out is longer
    """

    variables: frozenset[str]
    words: frozenset[str]
    entries: int
    _program: cel.Program
    _macros: tuple[int, ...]
    _filters: int
    _patterns: tuple[int, ...]

    def cost(self, longest: int, size: int) -> int:
        """At most about so many steps, each below a microsecond.

        Args:
            longest: entries of the longest list or map that it reads
            size: values in all that it reads
        """
        longest = max(longest, self.entries + 1)
        power = (1, longest, longest * longest)
        macros = sum([power[depth] for depth in self._macros])
        filters = self._filters * longest * (size + self.entries) // 10  # each hit copies the hits before
        return 1 + macros + filters + _PATTERN_COST * sum([power[depth] for depth in self._patterns])

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
    parsed = _Parsed(source)
    for name in sorted(set(program.variables()) - parsed.bound - _TYPES):
        if name not in VARIABLES:
            raise InvalidExpression(f"unknown variable {name}: known here are {', '.join(VARIABLES)}")
    for name in program.functions():
        if _IDENTIFIER.fullmatch(name) and name not in _FUNCTIONS:
            raise InvalidExpression(f"unknown function {name}: {_instead(name)}")
    return Expression(
        variables=frozenset(program.variables()) & frozenset(VARIABLES),
        words=frozenset(parsed.words),
        entries=parsed.commas,
        _program=program,
        _macros=tuple(parsed.macros),
        _filters=parsed.filters,
        _patterns=tuple(parsed.patterns),
    )


def _syntax(text: str) -> str:
    place = _POSITION.search(text)
    where = f", at its line {place[1]}, column {place[2]}" if place else ""
    if "unsupported syntax" in text:
        return f"uses CEL that is not offered here{where}: write has(a.b) instead of optional values (.?)"
    if "has() macro" in text:
        return f"has() takes a field, as in has(object.spec.priority){where}"
    return f"not a CEL expression{where}: look there for a missing operator, operand, quote or bracket"


def _instead(name: str) -> str:
    if name in ("exists", "all", "filter", "exists_one"):
        return "it takes one variable and an expression, as in list.exists(x, x == 1)"
    return f"known are {', '.join(sorted(_FUNCTIONS))}, and the macros {', '.join(sorted(_MACROS))} and has"


class _Parsed:
    """What the tokens of an expression say of its cost.

    Attributes:
        bound: variables of macros
        macros: for each macro, how many are around it, itself included
        patterns: for each `matches`, how many macros are around it
    """

    def __init__(self, source: str) -> None:
        self.bound: set[str] = set()
        self.macros: list[int] = []
        self.patterns: list[int] = []
        self.filters = 0
        self.words: set[str] = set()
        tokens = [match for match in _TOKEN.finditer(source) if match.lastgroup != "comment"]
        self.commas = sum(token[0] == "," for token in tokens)
        open_brackets: list[bool] = []  # True: a macro's
        for at, token in enumerate(tokens):
            text = token[0]
            if token.lastgroup == "name":
                self.words.add(text)
            elif token.lastgroup == "text":
                self.words.add(_content(text))
            elif text in ("(", "[", "{"):
                called = self._called(tokens, at)
                open_brackets.append(called in _MACROS)
                self._call(called, sum(open_brackets), [each[0] for each in tokens[at + 1 : at + 3]])
            elif text in (")", "]", "}") and open_brackets:
                open_brackets.pop()

    @staticmethod
    def _called(tokens: list[re.Match[str]], at: int) -> str:
        if tokens[at][0] == "(" and at >= 2 and tokens[at - 2][0] == ".":
            return tokens[at - 1][0]
        return ""

    def _call(self, called: str, depth: int, following: list[str]) -> None:
        if called == "map":
            raise InvalidExpression("map is not offered: write list.exists(x, ...) or list.all(x, ...)")
        if called in _MACROS:
            self.bound.update(following[:1])
            self.macros.append(depth)
            if depth > _MAX_NESTED:
                raise InvalidExpression(f"macros nest too deeply: at most {_MAX_NESTED}")
            if called == "filter":
                self.filters += 1
                if depth > 1:
                    raise InvalidExpression("filter inside of another macro: write exists or all there")
        elif called == "matches":
            self.patterns.append(depth)
            self._pattern(following)

    @staticmethod
    def _pattern(following: list[str]) -> None:
        if len(following) < 2 or following[1] != ")" or following[0][-1] not in "'\"":
            raise InvalidExpression("matches takes a pattern in quotes, as in matches('^etl-')")
        if _BIG_PATTERN.search(following[0]):
            raise InvalidExpression("a pattern of matches must not count groups, nor beyond 99")
        try:
            cel.compile(f"''.matches({following[0]})").execute()
        except (ValueError, RuntimeError):
            raise InvalidExpression("the pattern of matches is not a regular expression (RE2)") from None


def _content(quoted: str) -> str:
    """The text between quotes; escapes stay as they are written."""
    return quoted.lstrip("rRbB").strip("\"'")


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
