"""Views on the lists of a pod: items found by identity, every change recorded in the patch.

They work on the decoded JSON itself, so fields that nobody here knows survive. They must never decide whether
a change is right.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

from webhook.kinds import Json, ListKind
from webhook.objects import MalformedPod, ObjectView, dotted
from webhook.patch import Patch

_REFERENCE = re.compile(r"(\$\$)|\$\(([^)]+)\)")


class ListView:
    """One keyed list of a pod: items found by identity, changes recorded.

    Of several items with one identity the last counts, as it does for a container's environment.
    `claims` and `firm` belong to the planner (webhook.changes.Plan).

    Attributes:
        index: identity -> position, of all items
    """

    __slots__ = (
        "_fresh",
        "_items",
        "_owner",
        "_patch",
        "_path",
        "_referring",
        "claims",
        "firm",
        "index",
        "kind",
    )

    def __init__(self, kind: ListKind, owner: ObjectView, patch: Patch) -> None:
        self.kind = kind
        self.claims: dict[Hashable, Any] = {}
        self.firm: set[Hashable] = set()
        self._owner = owner
        self._patch = patch
        self._path = ""
        items = owner.get(kind.field)
        if items is not None and not isinstance(items, list):
            raise MalformedPod(dotted(self.path), "expected a list")
        self._items: list[Any] | None = items
        self._fresh = owner.fresh
        self._referring: list[tuple[int, str]] | None = None
        self.index: dict[Hashable, int] = self._positions()

    def __len__(self) -> int:
        return len(self._items or ())

    @property
    def path(self) -> str:
        """JSON Pointer of the list."""
        if not self._path:
            self._path = f"{self._owner.path}/{self.kind.field}"
        return self._path

    def moved(self) -> None:
        """The container that the list is in stands elsewhere now."""
        self._path = ""

    @property
    def items(self) -> Sequence[Any]:
        """The items as they are now."""
        return self._items or ()

    def get(self, identity: Hashable) -> Any:
        """The item of this identity, or None."""
        position = self.index.get(identity)
        return None if position is None or self._items is None else self._items[position]

    def add(self, identity: Hashable, item: Any) -> None:
        """Add an item whose identity is not there: at the end, or before the first item that refers to it.

        Kubernetes resolves `$(NAME)` only from variables that come earlier in the list.
        """
        items = self._items
        if items is None:
            items = self._items = []
            self._fresh = True
            self._owner.put(self.kind.field, items)
        if self.kind.read_in_order:
            if self._referring != []:
                user = self._first_use(str(identity))
                if user is not None:
                    self._insert(user, item)
                    return
            if "$(" in (item.get("value") or ""):
                self._referring = None
        if not self._fresh:
            self._patch.add((self._path or self.path) + "/-", item)
        self.index[identity] = len(items)
        items.append(item)

    def replace(self, identity: Hashable, item: Any) -> None:
        """Put an item in the place of the one that has this identity."""
        assert self._items is not None
        position = self.index[identity]
        if not self._fresh and not self._patch.amend(self._items[position], item):
            self._patch.replace(f"{self.path}/{position}", item)
        self._items[position] = item
        self._referring = None

    def _insert(self, position: int, item: Any) -> None:
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
