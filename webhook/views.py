"""Views on the lists and maps of a pod: items found by identity, every change recorded in the patch.

They work on the decoded JSON itself, so fields that nobody here knows survive. They must never decide whether
a change is right.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from webhook.kinds import Json, ListKind
from webhook.patch import Patch, escape

_REFERENCE = re.compile(r"(\$\$)|\$\(([^)]+)\)")


class MalformedPod(Exception):
    """The object can't be a pod: a JSON type that Kubernetes would not have sent.

    Args:
        path: where, as a field path from the pod (`spec.containers[0].env`)
        message: what was expected there
    """

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class ListView:
    """One keyed list of a pod: items found by identity, changes recorded.

    Of several items with one identity the last counts, as it does for a container's environment.
    `claims` and `firm` belong to the planner (webhook.changes.Plan).

    Attributes:
        index: identity -> position, of all items
    """

    __slots__ = (
        "_end",
        "_fresh",
        "_items",
        "_parent",
        "_patch",
        "_referring",
        "claims",
        "firm",
        "index",
        "kind",
        "path",
    )

    def __init__(self, kind: ListKind, parent: Json, path: str, patch: Patch) -> None:
        self.kind = kind
        self.path = path
        self.claims: dict[Hashable, Any] = {}
        self.firm: set[Hashable] = set()
        self._end = path + "/-"
        self._parent = parent
        self._patch = patch
        items = parent.get(kind.field)
        if items is not None and not isinstance(items, list):
            raise MalformedPod(dotted(path), "expected a list")
        self._items: list[Json] | None = items
        self._fresh = False
        self._referring: list[tuple[int, str]] | None = None
        self.index: dict[Hashable, int] = self._positions()

    def get(self, identity: Hashable) -> Json | None:
        """The item of this identity, or None."""
        position = self.index.get(identity)
        return None if position is None or self._items is None else self._items[position]

    def add(self, identity: Hashable, item: Json) -> None:
        """Add an item whose identity is not there: at the end, or before the first item that refers to it.

        Kubernetes resolves `$(NAME)` only from variables that come earlier in the list.
        """
        items = self._items
        if items is None:
            items = self._items = self._parent[self.kind.field] = []
            self._fresh = True
            self._patch.add(self.path, items)
        if self.kind.read_in_order:
            user = self._first_use(str(identity))
            if user is not None:
                self._insert(user, item)
                return
            if "$(" in (item.get("value") or ""):
                self._referring = None
        if not self._fresh:
            self._patch.add(self._end, item)
        self.index[identity] = len(items)
        items.append(item)

    def replace(self, identity: Hashable, item: Json) -> None:
        """Put an item in the place of the one that has this identity."""
        assert self._items is not None
        position = self.index[identity]
        if not self._fresh and not self._patch.amend(self._items[position], item):
            self._patch.replace(f"{self.path}/{position}", item)
        self._items[position] = item
        self._referring = None

    def _insert(self, position: int, item: Json) -> None:
        assert self._items is not None
        if not self._fresh:
            self._patch.add(f"{self.path}/{position}", item)
        self._items.insert(position, item)
        self.index = self._positions()
        self._referring = None

    def _positions(self) -> dict[Hashable, int]:
        identity = self.kind.identity
        try:
            return {identity(item): at for at, item in enumerate(self._items or ())}
        except (AttributeError, TypeError, KeyError) as error:
            path = dotted(self.path)
            raise MalformedPod(path, "expected a list of objects as Kubernetes has them") from error

    def _first_use(self, name: str) -> int | None:
        """Position of the first item whose value refers to this variable."""
        if self._referring is None:
            values = [text_of(item) for item in self._items or ()]
            self._referring = [(at, value) for at, value in enumerate(values) if "$(" in value]
        reference = f"$({name})"
        for at, value in self._referring:
            if reference in value and any(match[2] == name for match in _REFERENCE.finditer(value)):
                return at
        return None


def text_of(variable: Json) -> str:
    """The literal value of an environment variable, "" if it has another kind or none.

    Raises:
        MalformedPod: the value is not a string
    """
    value = variable.get("value")
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedPod("spec.containers[*].env[*].value", "expected a string")
    return value


class MapView:
    """One map of strings of a pod (labels, annotations, nodeSelector); changes recorded."""

    __slots__ = ("_entries", "_field", "_fresh", "_parent", "_patch", "_size", "claims", "firm", "path")

    def __init__(self, parent: Json, field: str, path: str, patch: Patch) -> None:
        self.path = path
        self.claims: dict[Hashable, Any] = {}
        self.firm: set[Hashable] = set()
        self._parent = parent
        self._field = field
        self._patch = patch
        entries = parent.get(field)
        if entries is not None and not isinstance(entries, dict):
            raise MalformedPod(dotted(path), "expected a map")
        self._entries: Json | None = entries
        self._fresh = False
        self._size: int | None = None

    def get(self, key: str) -> str | None:
        """The value of a key, or None."""
        return None if self._entries is None else self._entries.get(key)

    def put(self, key: str, value: str) -> None:
        """Set a key, whether or not it was there."""
        if self._entries is None:
            self._entries = self._parent[self._field] = {}
            self._fresh = True
            self._patch.add(self.path, self._entries)
        elif not self._fresh:
            write = self._patch.replace if key in self._entries else self._patch.add
            write(f"{self.path}/{escape(key)}", value)
        if self._size is not None:
            self._size += self._growth(key, value)
        self._entries[key] = value

    def size_with(self, key: str, value: str) -> int:
        """Bytes of all keys and values together, as Kubernetes counts annotations, if this were put."""
        if self._size is None:
            self._size = sum(_bytes(name) + _bytes(text) for name, text in (self._entries or {}).items())
        return self._size + self._growth(key, value)

    def _growth(self, key: str, value: str) -> int:
        have = self.get(key)
        return _bytes(value) + (_bytes(key) if have is None else -_bytes(have))


def _bytes(text: Any) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def dotted(path: str) -> str:
    """A JSON Pointer as a field path for messages: /spec/containers/0/env -> spec.containers[0].env."""
    return re.sub(r"/(\d+)(?=/|$)", r"[\1]", path).replace("/", ".").lstrip(".")
