"""YAML as plain values that know where they were written: every value and key has its line and column.

It reads the parser's events, so that neither deep nesting nor aliases of aliases can cost stack or memory,
and so that one mistake does not hide the next. It must never know what the documents are about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from webhook.policy import scalars
from webhook.policy.scalars import MERGE, TAG

Path = tuple[str | int, ...]

MAX_DEPTH: Final = 100
MAX_ALIASED: Final = 100_000
"""How many values the aliases of one document may stand for, all together."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_SIMPLE_KEY = re.compile(r"[A-Za-z_][-\w]*")


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong at a 1-based position; the path leads there from the document's root."""

    line: int
    column: int
    path: Path
    message: str


@dataclass(slots=True)
class Node:
    """A value and its 1-based position; `children` mirrors a mapping or a list, with the keys' positions."""

    value: Any
    line: int
    column: int
    children: dict[str, tuple[int, int, Node]] | list[Node] | None = None
    size: int = 1
    height: int = 0


@dataclass(slots=True)
class Document:
    """One document of a stream. `root` is None where the text can't be read any further."""

    root: Node | None
    faults: list[Fault] = field(default_factory=list)


def read(text: str) -> Iterator[Document]:
    """The documents of a text, without empty ones. A syntax error makes a last one, which has no root."""
    reader = _Reader()
    try:
        if bad := _NOT_YAML.search(text):
            raise _Unreadable(*_line_and_column(text, bad.start()), "a character that YAML does not allow")
        for event in yaml.parse(text, Loader=_LOADER):
            if (document := reader.take(event)) is not None:
                yield document
    except _Unreadable as problem:
        yield Document(None, [*reader.faults, problem.fault])
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line, column = _inside(text, mark.line + 1, mark.column + 1) if mark else (1, 1)
        yield Document(
            None, [*reader.faults, Fault(line, column, (), _sentence(problem, text, line, column))]
        )
    except yaml.YAMLError:
        yield Document(None, [*reader.faults, Fault(1, 1, (), "not valid YAML")])


def show(path: Path) -> str:
    """A path as people write it: `spec.common.env[2].name`, `labels["a.b/c"]`."""
    parts: list[str] = []
    for part in path:
        if isinstance(part, int):
            parts.append(f"[{part}]")
        elif _SIMPLE_KEY.fullmatch(part):
            parts.append(f".{part}" if parts else part)
        else:
            parts.append(f"[{_quoted(part)}]")
    return "".join(parts)


def printable(text: str) -> str:
    """The text without characters that could forge a line or colour a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _quoted(key: str) -> str:
    return f'"{printable(key if len(key) <= 80 else key[:77] + "...")}"'


def _sentence(problem: yaml.MarkedYAMLError, text: str, line: int, column: int) -> str:
    said = " ".join(filter(None, (problem.context, problem.problem)))
    lines = _LINE_BREAK.split(text)
    if (
        "cannot start any token" in said
        and line <= len(lines)
        and lines[line - 1][column - 1 : column] == "\t"
    ):
        return "not valid YAML: a tab can't be used to indent: use spaces"
    if "mapping values are not allowed" in said:
        return "not valid YAML: a ':' that no key can stand before: put text with ': ' in it in quotes"
    if "node content" in said:
        return "not valid YAML: a value is missing before this"
    if "block" in said and "expected" in said:
        return "not valid YAML: this does not fit to the lines before: check the indentation"
    return f"not valid YAML: {said}"


def _inside(text: str, line: int, column: int) -> tuple[int, int]:
    """The position, or the end of the text if it is behind that: where something is missing."""
    lines = _LINE_BREAK.split(text)
    return (line, column) if line <= len(lines) else (len(lines), len(lines[-1]) + 1)


def _line_and_column(text: str, index: int) -> tuple[int, int]:
    lines = _LINE_BREAK.split(text[:index])
    return len(lines), len(lines[-1]) + 1


class _Unreadable(Exception):
    """The rest of the text can't be read."""

    def __init__(self, line: int, column: int, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.fault = Fault(line, column, path, message)


@dataclass(slots=True)
class _Open:
    """A mapping or list that is being read, and the key whose value comes next."""

    node: Node
    anchor: str | None
    key: str | None = None
    key_line: int = 0
    key_column: int = 0
    awaits_value: bool = False
    merged: Node | None = None


class _Reader:
    """Turns the events of one stream into documents."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.faults: list[Fault] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.root: Node | None = None
        self.aliased = 0

    def take(self, event: yaml.Event) -> Document | None:
        """Takes the next event; returns a document when it ends one that is not empty."""
        mark: Any = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        if isinstance(event, yaml.ScalarEvent):
            node = Node(None, line, column)
            is_merge = self._read_scalar(event, node)
            if event.anchor is not None:
                self.anchors[event.anchor] = node
            self._place(node, is_merge=is_merge)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._begin(event, line, column)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._place(self._alias(str(event.anchor), line, column))
        elif isinstance(event, yaml.DocumentEndEvent):
            document = Document(self.root, self.faults)
            self._start()
            return (
                document if document.faults or (document.root and document.root.value is not None) else None
            )
        return None

    def _begin(self, event: yaml.CollectionStartEvent, line: int, column: int) -> None:
        is_mapping = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", TAG + ("map" if is_mapping else "seq")):
            self._fault(line, column, "this YAML tag can't be used here: remove it")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        if len(self.open) >= MAX_DEPTH:
            raise _Unreadable(line, column, f"nested too deeply: more than {MAX_DEPTH} levels")
        node = Node({}, line, column, {}) if is_mapping else Node([], line, column, [])
        self.open.append(_Open(node, event.anchor))

    def _end(self) -> None:
        ended = self.open.pop()
        if ended.merged is not None:
            self._merge(ended.node, ended.merged)
        if ended.anchor is not None:
            self.anchors[ended.anchor] = ended.node
        self._place(ended.node)

    def _alias(self, anchor: str, line: int, column: int) -> Node:
        if anchor not in self.anchors:
            raise _Unreadable(line, column, f"there is no anchor &{anchor} above")
        node = self.anchors[anchor]
        if node is None:
            raise _Unreadable(line, column, f"*{anchor} stands inside of &{anchor} itself")
        self.aliased += node.size
        if self.aliased > MAX_ALIASED:
            raise _Unreadable(line, column, f"aliases stand for more than {MAX_ALIASED} values")
        if len(self.open) + node.height > MAX_DEPTH:
            raise _Unreadable(line, column, f"nested too deeply: more than {MAX_DEPTH} levels")
        return node

    def _place(self, node: Node, *, is_merge: bool = False) -> None:
        """Puts a complete value where it belongs: as the root, an entry, a key or a key's value."""
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        if isinstance(parent.node.children, list):
            parent.node.value.append(node.value)
            parent.node.children.append(node)
            _grow(parent.node, node)
        elif parent.awaits_value:
            parent.awaits_value = False
            self._put(parent, node)
        else:
            parent.key = None
            parent.key = self._key(node, is_merge)
            parent.key_line, parent.key_column = node.line, node.column
            parent.awaits_value = True

    def _key(self, node: Node, is_merge: bool) -> str | None:
        """The key that a node is; None if its value has to be left out."""
        if is_merge:
            return MERGE
        if isinstance(node.value, str):
            return node.value
        fix = "write text" if node.children is not None or node.value is None else "put it in quotes"
        self._fault(node.line, node.column, f"a key must be text: {fix}")
        return None

    def _put(self, parent: _Open, node: Node) -> None:
        children = parent.node.children
        assert isinstance(children, dict)
        key, line, column = parent.key, parent.key_line, parent.key_column
        if key is None:
            return
        if key == MERGE:
            if parent.merged is not None:
                self._fault(line, column, "<< stands here twice: write one list, <<: [*a, *b]")
            parent.merged = node
        elif key in children:
            first = children[key][0]
            self._fault(line, column, f"the key is already there on line {first}: remove one of them", key)
        else:
            parent.node.value[key] = node.value
            children[key] = (line, column, node)
            _grow(parent.node, node)

    def _merge(self, target: Node, source: Node) -> None:
        """Adds the keys that the mapping does not have itself; of several sources the first one wins."""
        for mapping in source.children if isinstance(source.children, list) else [source]:
            if not isinstance(mapping.children, dict):
                self._fault(mapping.line, mapping.column, "<< takes a mapping, or a list of mappings")
                continue
            assert isinstance(target.children, dict)
            for key, child in mapping.children.items():
                if key not in target.children:
                    target.children[key] = child
                    target.value[key] = child[2].value
                    _grow(target, child[2])

    def _read_scalar(self, event: yaml.ScalarEvent, node: Node) -> bool:
        """Sets the node's value; returns True for a plain `<<`."""
        tag = scalars.tag(event)
        in_mapping = bool(self.open) and isinstance(self.open[-1].node.children, dict)
        if tag == MERGE and in_mapping:
            node.value = event.value
            return True
        try:
            node.value = scalars.value(tag, event.value)
        except scalars.UnknownTag:
            self._fault(node.line, node.column, "this YAML tag can't be used here: remove it")
        except ValueError:
            self._fault(
                node.line, node.column, "can't be read as the number it looks like: put text in quotes"
            )
        return False

    def _fault(self, line: int, column: int, message: str, *at: str) -> None:
        self.faults.append(Fault(line, column, (*self._path(), *at), message))

    def _path(self) -> Path:
        path: list[str | int] = []
        for parent in self.open:
            if isinstance(parent.node.children, list):
                path.append(len(parent.node.children))
            elif parent.awaits_value and parent.key is not None:
                path.append(parent.key)
        return tuple(path)


def _grow(parent: Node, child: Node) -> None:
    parent.size += child.size
    parent.height = max(parent.height, child.height + 1)
