"""What a CEL expression may cost, from its text: the evaluator has no limit of its own.

Each token costs something each time it is evaluated: once, or for each entry of what the macros around it
walk over. A step is about a fifth of a microsecond; the estimate errs to the high side. What can't be
bounded is refused: macros in macros in macros, `map` (its result grows with what it copies), patterns that
are not literal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MACROS = frozenset({"all", "exists", "exists_one", "filter"})
MAX_NESTED = 2

_TOKEN = re.compile(
    r"""(?P<text>(?:[rR][bB]?|[bB][rR])(?:"[^"\n]*"|'[^'\n]*')
        |[bB]?(?:\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
        |(?P<comment>//[^\n]*)|(?P<number>\.?\d[\w.]*)|(?P<name>[A-Za-z_]\w*)
        |(?P<mark>[=!<>]=|&&|\|\||\S)""",
    re.VERBOSE,
)
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})
_CONSTANTS = frozenset({"true", "false", "null", "-"})
# They look no further than their literal argument, or cost nothing.
_SHORT = frozenset({"has", "startsWith", "endsWith", "dyn", "type", "matches", *MACROS})
_INSIDE = MAX_NESTED + 1
_TOKEN_STEPS, _VALUE_STEPS = 2, 10
# A pattern is compiled each time; classes of letters are large there.
_PATTERN_STEPS = 300
_LETTERS = re.compile(r"\\[wWpP]")
_ESCAPES = re.compile(r"\\.|\[")
_COUNT = re.compile(r"\{(\d*),?(\d*)\}")
_BIG_PATTERN = re.compile(r"\)\s*\{|\{[0-9]*,?[0-9]{3,}")


class Unbounded(Exception):
    """An expression that might cost anything, and what to write instead."""


@dataclass(slots=True)
class _Level:
    """Steps of tokens that are evaluated equally often.

    Levels 0 to MAX_NESTED are for tokens inside of as many macros, level _INSIDE for those in a macro over a
    part of what the macro around it is at (`object.spec.containers.all(c, c.env.all(e, ...))`).
    """

    plain: int = 0
    # times the size of all that is read, times the longest list or map in it, times both
    sizes: int = 0
    longests: int = 0
    copies: int = 0


@dataclass(slots=True)
class Cost:
    """The cost of an expression.

    Attributes:
        words: all names and texts in it
        bound: variables of its macros
        patterns: the literals that `matches` takes
        entries: no list that it writes out is longer
    """

    words: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    patterns: list[str] = field(default_factory=list)
    entries: int = 1
    _levels: tuple[_Level, ...] = field(default_factory=lambda: tuple(_Level() for _ in range(_INSIDE + 1)))

    def steps(self, longest: int, size: int) -> int:
        """At most so many.

        Args:
            longest: entries of the longest list or map that the expression reads
            size: values in all that it reads, long texts counted more than once
        """
        longest = max(longest, self.entries)
        # Lists inside of the entries of one list have no more entries together than there are values.
        times = (1, longest, longest * longest, self.entries * size)
        total = _VALUE_STEPS * size
        for often, level in zip(times, self._levels, strict=True):
            each = level.plain + level.sizes * size + (level.longests + level.copies * size) * longest
            total += often * each
        return total


def cost(source: str) -> Cost:
    """The cost of an expression whose syntax is right.

    Raises:
        Unbounded: it has none
    """
    tokens = [match for match in _TOKEN.finditer(source) if match.lastgroup != "comment"]
    return _Reader([token[0] for token in tokens], [token.lastgroup or "" for token in tokens]).cost


class _Reader:
    """Goes through the tokens of an expression once.

    Args:
        texts: the tokens
        kinds: for each, its group in _TOKEN
    """

    def __init__(self, texts: list[str], kinds: list[str]) -> None:
        self.cost = Cost()
        self.texts = texts
        self.brackets: list[str] = []  # the open ones; a macro's is "macro" or "inside"
        self.outer = ""  # variable of the outermost open macro
        self.sums = 0
        for at, kind in enumerate(kinds):
            self._token(at, kind)

    def _text(self, at: int) -> str:
        return self.texts[at] if 0 <= at < len(self.texts) else ""

    def _macros(self) -> list[str]:
        return [each for each in self.brackets if each in ("macro", "inside")]

    def _level(self) -> _Level:
        macros = self._macros()
        return self.cost._levels[_INSIDE if macros[1:] == ["inside"] else len(macros)]

    def _token(self, at: int, kind: str) -> None:
        text, level = self.texts[at], self._level()
        level.plain += _TOKEN_STEPS
        if kind == "text":
            self.cost.words.add(_content(text))
        elif text == "in":
            if _literal(self._text(at - 1)):
                level.longests += 1
            elif self._text(at + 1) != "[":
                level.sizes += 1
        elif kind == "name":
            self.cost.words.add(text)
        elif text in _COMPARISONS:
            level.sizes += not (_literal(self._text(at - 1)) or _literal(self._text(at + 1)))
        elif text == "+":
            self.sums += 1  # what is joined once is joined again
            level.sizes += self.sums
        elif text == "," and self.brackets[-1:] in (["["], ["{"]):
            self.cost.entries += 1
        elif text in (")", "]", "}"):
            self.brackets.pop()
        elif text in ("[", "{"):
            self.brackets.append(text)
        elif text == "(":
            self._call(at, level)

    def _call(self, at: int, level: _Level) -> None:
        called, method = self._text(at - 1), self._text(at - 2) == "."
        if method and called == "map":
            raise Unbounded("map is not offered: write list.exists(x, ...) or list.all(x, ...)")
        if method and called in MACROS:
            self._macro(called, at, level)
            return
        if called == "matches":
            level.sizes += 1
            level.plain += _pattern_steps(self._text(at + 1), self._text(at + 2))
            self.cost.patterns.append(self._text(at + 1))
        elif _name(called) and called not in _SHORT:
            level.sizes += 1
        self.brackets.append("(")

    def _macro(self, called: str, at: int, level: _Level) -> None:
        around, variable = len(self._macros()), self._text(at + 1)
        if called == "filter":
            level.copies += 1
            if around:
                raise Unbounded("filter inside of another macro: write exists or all there")
        if around >= MAX_NESTED:
            raise Unbounded(f"macros nest too deeply: at most {MAX_NESTED}")
        self.brackets.append("inside" if around and self._root(at - 2) == self.outer else "macro")
        if not around:
            self.outer = variable
        self.cost.bound.add(variable)

    def _root(self, dot: int) -> str:
        """The variable that a path of plain fields begins with, "" for others; `dot` is its last dot."""
        while self._text(dot) == "." and _name(self._text(dot - 1)):
            dot -= 2
        return "" if self._text(dot) in (")", "]", "}", ".") else self._text(dot + 1)


def _name(text: str) -> bool:
    return text.isidentifier() and text != "in"


def _literal(text: str) -> bool:
    return text[-1:] in ("'", '"') or text[:1].isdigit() or text in _CONSTANTS


def _content(quoted: str) -> str:
    """The text between quotes; escapes stay as they are written."""
    return quoted.lstrip("rRbB").strip("\"'")


def _pattern_steps(pattern: str, after: str) -> int:
    if after != ")" or pattern[-1:] not in ("'", '"'):
        raise Unbounded("matches takes a pattern in quotes, as in matches('^etl-')")
    if _BIG_PATTERN.search(pattern):
        raise Unbounded("a pattern of matches must not count groups, nor beyond 99")
    once = 2000 * len(_LETTERS.findall(pattern)) + 200 * len(_ESCAPES.findall(pattern))
    once += (50 if "(?" in pattern else 10) * len(pattern)
    return _PATTERN_STEPS + once * max([1, *(int(n) for pair in _COUNT.findall(pattern) for n in pair if n)])
