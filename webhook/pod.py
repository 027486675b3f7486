"""SparkPod: a view on the raw pod of a request: its role, application, containers, lists and maps.

It works on the decoded JSON itself, so fields that nobody here knows survive. Views are made when they are
first asked for and record every change in the patch. It must never decide whether a change is right.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Any

from webhook import spark
from webhook.kinds import ENV, Json, ListKind
from webhook.namespaces import Namespace
from webhook.patch import Patch, escape

_REFERENCE = re.compile(r"(\$\$)|\$\(([^)]+)\)")


Place = tuple[ListKind, str | tuple[str, ...]]
"""A kind of list, and for a container's the containers: `Spark`, `All` or names."""


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
            raise MalformedPod(_dotted(path), "expected a list")
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
            path = _dotted(self.path)
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
            raise MalformedPod(_dotted(path), "expected a map")
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


class Container:
    """One container or init container of the pod, and its lists."""

    __slots__ = ("_lists", "_patch", "name", "path", "raw")

    def __init__(self, raw: Any, path: str, patch: Patch) -> None:
        if not isinstance(raw, dict):
            raise MalformedPod(_dotted(path), "expected a container")
        self.raw: Json = raw
        self.path = path
        self.name = raw.get("name")
        self._patch = patch
        self._lists: dict[ListKind, ListView] = {}

    def list(self, kind: ListKind) -> ListView:
        """The view on one of the container's lists."""
        view = self._lists.get(kind)
        if view is None:
            view = self._lists[kind] = ListView(kind, self.raw, f"{self.path}/{kind.field}", self._patch)
        return view

    def env_value(self, name: str) -> str | None:
        """The literal value of an environment variable, "" if it has another kind; None if it is absent."""
        item = self.list(ENV).get(name)
        return None if item is None else text_of(item)


class SparkPod:
    """A driver or executor pod.

    Args:
        raw: the pod as decoded JSON; it is changed in place
        role: `driver` or `executor`
        namespace: where it is created; the pod itself may not say
        labels: the labels as the author set them, for placeholders

    Attributes:
        known: the views that were asked for

    Raises:
        MalformedPod: here or from any accessor, if the JSON is not that of a pod
    """

    __slots__ = (
        "_all",
        "_maps",
        "_spark_container",
        "_spec",
        "_values",
        "known",
        "labels",
        "metadata",
        "namespace",
        "patch",
        "role",
    )

    def __init__(self, raw: Json, role: str, namespace: Namespace, labels: Mapping[str, str]) -> None:
        self.role = role
        self.namespace = namespace
        self.patch = Patch()
        self.metadata: Json = raw["metadata"]
        self.labels = labels
        spec = raw.get("spec")
        if not isinstance(spec, dict):
            raise MalformedPod("spec", "expected an object")
        self._spec: Json = spec
        self.known: dict[Place, tuple[ListView, ...]] = {}
        self._values: dict[tuple[str, str], str | None] = {}
        self._maps: dict[str, MapView] = {}
        self._all: tuple[Container, ...] | None = None
        self._spark_container: Container | None = None

    def map(self, field: str) -> MapView:
        """The view on `labels`, `annotations` (of metadata) or `nodeSelector` (of spec)."""
        view = self._maps.get(field)
        if view is None:
            if field == "nodeSelector":
                view = MapView(self._spec, field, "/spec/nodeSelector", self.patch)
            else:
                view = MapView(self.metadata, field, f"/metadata/{field}", self.patch)
            self._maps[field] = view
        return view

    @property
    def containers(self) -> tuple[Container, ...]:
        """Init containers and containers; ephemeral ones are never ours."""
        if self._all is None:
            found = []
            for field in ("initContainers", "containers"):
                items = self._spec.get(field) or []
                if not isinstance(items, list):
                    raise MalformedPod(f"spec.{field}", "expected a list")
                found += [Container(raw, f"/spec/{field}/{at}", self.patch) for at, raw in enumerate(items)]
            self._all = tuple(found)
        return self._all

    @property
    def spark_container(self) -> Container | None:
        """Spark's own container: by Spark's marker in its environment, else by name, else the only one.

        Never "the first one": a pod template's container keeps its name and its place.
        """
        if self._spark_container is None:
            self._spark_container = self._find_spark_container()
        return self._spark_container

    def _find_spark_container(self) -> Container | None:
        main = [container for container in self.containers if container.path.startswith("/spec/containers/")]
        marker = spark.MARKER_ENV[self.role]
        try:
            for container in main:
                if container.env_value(marker) is not None:
                    return container
        except (AttributeError, TypeError) as error:
            raise MalformedPod(
                "spec.containers[*].env", "expected a list of environment variables"
            ) from error
        names = spark.CONTAINER_NAMES[self.role]
        for container in main:
            if container.name in names:
                return container
        return main[0] if len(main) == 1 else None

    def views(self, place: Place) -> tuple[ListView, ...] | None:
        """The lists that a place stands for (`known` from now on); None if a container can't be found."""
        kind, containers = place
        if not kind.in_container:
            found: tuple[ListView, ...] = (ListView(kind, self._spec, f"/spec/{kind.field}", self.patch),)
        else:
            targets = self._targets(containers)
            if targets is None:
                return None
            found = tuple(container.list(kind) for container in targets)
        self.known[place] = found
        return found

    def _targets(self, containers: str | tuple[str, ...]) -> tuple[Container, ...] | None:
        if containers == "Spark":
            found = self.spark_container
            return None if found is None else (found,)
        if containers == "All":
            return self.containers
        by_name = {container.name: container for container in self.containers}
        if any(name not in by_name for name in containers):
            return None
        return tuple(by_name[name] for name in containers)

    def placeholder(self, name: str, key: str) -> str | None:
        """The value that a placeholder has for this pod, or None (webhook.policy.placeholders.Lookup)."""
        place = (name, key)
        if place not in self._values:
            self._values[place] = self._value(name, key)
        return self._values[place]

    def _value(self, name: str, key: str) -> str | None:
        match name:
            case "APP_ID":
                return self.labels.get(spark.APP_ID_LABEL) or self._spark_env("SPARK_APPLICATION_ID")
            case "APP_NAME":
                return self.labels.get(spark.APP_NAME_LABEL) or None
            case "EXECUTOR_ID":
                found = self.labels.get(spark.EXECUTOR_ID_LABEL)
                return None if found == spark.UNASSIGNED_EXECUTOR_ID else found
            case "SPARK_VERSION":
                return self.labels.get(spark.VERSION_LABEL)
            case "NAMESPACE":
                return self.namespace.name
            case "NAMESPACE_LABEL":
                return self.namespace.labels.get(key)
            case "NAMESPACE_ANNOTATION":
                return self.namespace.annotations.get(key)
            case "POD_LABEL":
                return self.labels.get(key)
        return None

    def _spark_env(self, name: str) -> str | None:
        container = self.spark_container
        return (container.env_value(name) or None) if container else None


def _bytes(text: Any) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _dotted(path: str) -> str:
    """A JSON Pointer as a field path for messages: /spec/containers/0/env -> spec.containers[0].env."""
    return re.sub(r"/(\d+)(?=/|$)", r"[\1]", path).replace("/", ".").lstrip(".")
