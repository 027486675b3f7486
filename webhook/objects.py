"""Views on the objects of a pod: fields found by key, made with their parents when something is put in them.

They work on the decoded JSON itself, so fields that nobody here knows survive. They must never decide whether
a change is right.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

from webhook.patch import Patch, escape

Json = dict[str, Any]


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


class ObjectView:
    """One object of a pod, which may be absent: it is made when something is first put into it.

    `claims` and `firm` belong to the planner (webhook.changes.Plan).

    Args:
        raw: the decoded object, None if it is absent
        patch: where changes are recorded
        path: JSON Pointer, for an object without a parent view
        parent: the view on the object that this one is a field of
        key: the field's name there

    Attributes:
        fresh: an operation recorded this very object by reference, so what is put into it needs none
    """

    __slots__ = ("_children", "_key", "_parent", "_patch", "_path", "claims", "firm", "fresh", "raw")

    def __init__(
        self, raw: Any, patch: Patch, path: str, parent: ObjectView | None = None, key: str = ""
    ) -> None:
        self._patch = patch
        self._path = path
        self._parent = parent
        self._key = key
        self._children: dict[str, ObjectView] = {}
        if raw is not None and not isinstance(raw, dict):
            raise MalformedPod(dotted(self.path), "expected an object")
        self.raw: Json | None = raw
        self.fresh = False
        self.claims: dict[Hashable, Any] = {}
        self.firm: set[Hashable] = set()

    @property
    def path(self) -> str:
        """JSON Pointer of the object."""
        return self._path if self._parent is None else f"{self._parent.path}/{escape(self._key)}"

    def move(self, path: str) -> None:
        """The object stands elsewhere now: something was inserted before it."""
        self._path = path

    def child(self, key: str) -> ObjectView:
        """The view on the object that is a field of this one."""
        found = self._children.get(key)
        if found is None:
            found = self._children[key] = ObjectView(self.get(key), self._patch, "", self, key)
            found.fresh = self.fresh and found.raw is not None
        return found

    def descend(self, keys: tuple[str, ...]) -> ObjectView:
        """The view on an object below this one."""
        view = self
        for key in keys:
            view = view.child(key)
        return view

    def get(self, key: str) -> Any:
        """The value of a field, or None."""
        return None if self.raw is None else self.raw.get(key)

    def put(self, key: str, value: Any) -> None:
        """Set a field, whether or not it was there; the object itself is made first if need be."""
        if self.raw is None:
            self.raw = {}
            if self._parent is None:
                self._patch.add(self._path, self.raw)
            else:
                self._parent.put(self._key, self.raw)
            self.fresh = True
        if not self.fresh:
            # null is as good as absent, and to RFC 6902 `add` is right for both.
            write = self._patch.add if self.raw.get(key) is None else self._patch.replace
            write(f"{self.path}/{escape(key)}", value)
        self.raw[key] = value

    @property
    def root(self) -> ObjectView:
        """The spec, or the container, that this object is below."""
        return self if self._parent is None else self._parent.root

    def drop(self, key: str, _value: None = None) -> None:
        """Remove a field that Kubernetes derived from another one; nothing happens if it is not there."""
        if self.raw is not None and key in self.raw:
            if not self.fresh:
                self._patch.remove(f"{self.path}/{escape(key)}")
            del self.raw[key]


class MapView(ObjectView):
    """One map of strings of a pod: labels, annotations, nodeSelector."""

    __slots__ = ("_size",)

    def __init__(self, parent: ObjectView, key: str) -> None:
        raw = parent.get(key)
        if raw is not None and not isinstance(raw, dict):
            raise MalformedPod(dotted(f"{parent.path}/{key}"), "expected a map")
        super().__init__(raw, parent._patch, "", parent, key)
        self._size: int | None = None

    def put(self, key: str, value: Any) -> None:
        """Set a key, whether or not it was there."""
        if self._size is not None:
            self._size += self._growth(key, value)
        super().put(key, value)

    def size_with(self, key: str, value: str) -> int:
        """Bytes of all keys and values together, as Kubernetes counts annotations, if this were put."""
        if self._size is None:
            self._size = sum(_bytes(name) + _bytes(text) for name, text in (self.raw or {}).items())
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
