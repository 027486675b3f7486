"""SparkPod: a view on the raw pod of a request: its role, application, containers, lists and maps.

Its parts are found when they are first asked for. It must never decide whether a change is right.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from webhook import spark
from webhook.kinds import ENV, Json, ListKind
from webhook.namespaces import Namespace
from webhook.objects import MalformedPod, MapView, ObjectView, dotted
from webhook.patch import Patch
from webhook.views import ListView, text_of

ListField = Literal["containers", "initContainers"]


@dataclass(frozen=True, slots=True)
class Exactly:
    """The container of this name, also one that a policy added."""

    name: str


Containers = str | tuple[str, ...] | Exactly
"""`Spark`, `All`, names, or exactly one. `All` and names leave out containers that policies add."""

Place = tuple[ListKind, Containers]
"""A kind of list, and for a container's the containers."""


def containers_of(stated: str | Sequence[str] | Exactly) -> Containers:
    """A policy's `containers` in a form that can be a key."""
    return stated if isinstance(stated, str | Exactly) else tuple(stated)


class Injected(NamedTuple):
    """The names of what the policies for a pod may add to it: containers, volumes.

    In a later pass these stand in the pod already. They are left out where a first pass would not have seen
    them, so that both decide the same.
    """

    containers: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()


NOTHING_INJECTED = Injected()


class NewContainer(Protocol):
    """A container to add to `field`; `place` tells the index among the containers of that list, by name."""

    field: ListField
    container: Json

    def place(self, pod: SparkPod, names: list[str | None]) -> int:
        """The index at which it is to be inserted."""


class Container:
    """One container or init container of the pod, and its lists."""

    __slots__ = ("_lists", "_patch", "field", "name", "view")

    def __init__(self, raw: Any, field: str, position: int, patch: Patch) -> None:
        path = f"/spec/{field}/{position}"
        if not isinstance(raw, dict):
            raise MalformedPod(dotted(path), "expected a container")
        self.view = ObjectView(raw, patch, path)
        self.field = field
        self.name = raw.get("name")
        self._patch = patch
        self._lists: dict[ListKind, ListView] = {}

    def list(self, kind: ListKind) -> ListView:
        """The view on one of the container's lists."""
        view = self._lists.get(kind)
        if view is None:
            view = self._lists[kind] = ListView(kind, self.view.descend(kind.within), self._patch)
        return view

    def string_list(self, field: str) -> Sequence[str]:
        """A list of texts of the container, as `args`; empty if it is absent.

        Raises:
            MalformedPod: it is something else
        """
        found = self.view.get(field) or []
        if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
            raise MalformedPod(dotted(f"{self.view.path}/{field}"), "expected a list of strings")
        return found

    def insert_before(self, place: tuple[str, str], texts: Sequence[str]) -> None:
        """Insert texts before the first one that is `place[1]`, in the list of the field `place[0]`."""
        field, before = place
        items = self.view.get(field)
        at = items.index(before)
        for offset, text in enumerate(texts):
            self._patch.add(f"{self.view.path}/{field}/{at + offset}", text)
        items[at:at] = texts

    def replace_text(self, place: tuple[str, str], text: str) -> None:
        """Put a text in the place of the last one that equals `place[1]`; `place[0]` is the list's field."""
        field, old = place
        items = self.view.get(field)
        at = len(items) - 1 - items[::-1].index(old)
        self._patch.replace(f"{self.view.path}/{field}/{at}", text)
        items[at] = text

    def move(self, path: str) -> None:
        """The container stands elsewhere now: another one was inserted before it."""
        self.view.move(path)
        for view in self._lists.values():
            view.moved()

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
        injected: names of containers and volumes that policies for this pod may add

    Attributes:
        known: the views that were asked for
        spec: the view on the pod's spec

    Raises:
        MalformedPod: here or from any accessor, if the JSON is not that of a pod
    """

    __slots__ = (
        "_all",
        "_made",
        "_maps",
        "_meta",
        "_names",
        "_spark_container",
        "_values",
        "injected",
        "known",
        "labels",
        "metadata",
        "namespace",
        "patch",
        "role",
        "spec",
    )

    def __init__(
        self,
        raw: Json,
        role: str,
        namespace: Namespace,
        labels: Mapping[str, str],
        injected: Injected = NOTHING_INJECTED,
    ) -> None:
        self.role = role
        self.namespace = namespace
        self.patch = Patch()
        self.metadata: Json = raw["metadata"]
        self.labels = labels
        spec = raw.get("spec")
        if not isinstance(spec, dict):
            raise MalformedPod("spec", "expected an object")
        self.spec = ObjectView(spec, self.patch, "/spec")
        self._meta = ObjectView(self.metadata, self.patch, "/metadata")
        self._names: ObjectView | None = None
        self.injected = injected
        self.known: dict[Place, tuple[ListView, ...]] = {}
        self._values: dict[tuple[str, str], str | None] = {}
        self._maps: dict[str, MapView] = {}
        self._made: set[str] = set()
        self._all: tuple[Container, ...] | None = None
        self._spark_container: Container | None = None

    @property
    def names(self) -> ObjectView:
        """Holds the claims of container names."""
        if self._names is None:
            self._names = ObjectView({}, self.patch, "")
        return self._names

    def map(self, field: str) -> MapView:
        """The view on `labels`, `annotations` (of metadata) or `nodeSelector` (of spec)."""
        view = self._maps.get(field)
        if view is None:
            view = MapView(self.spec if field == "nodeSelector" else self._meta, field)
            self._maps[field] = view
        return view

    @property
    def containers(self) -> tuple[Container, ...]:
        """Init containers and containers; ephemeral ones are never ours."""
        if self._all is None:
            found = []
            for field in ("initContainers", "containers"):
                items = self.spec.get(field) or []
                if not isinstance(items, list):
                    raise MalformedPod(f"spec.{field}", "expected a list")
                found += [Container(raw, field, at, self.patch) for at, raw in enumerate(items)]
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
        main = [container for container in self.containers if container.field == "containers"]
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
        authors = [container for container in main if container.name not in self.injected.containers]
        return authors[0] if len(authors) == 1 else None

    def container(self, name: str) -> Container | None:
        """The container of this name, whoever added it."""
        return next((container for container in self.containers if container.name == name), None)

    def insert_container(self, _name: Hashable, added: NewContainer) -> None:
        """Insert a container into one of the two lists, where it wants to be."""
        field = added.field
        others = [container for container in self.containers if container.field == field]
        items = self.spec.get(field)
        if items is None:
            items = []
            self.spec.put(field, items)
            self._made.add(field)
        place = added.place(self, [container.name for container in others])
        path = f"/spec/{field}"
        # Later features may change it, and the policy's own copy must stay as it is.
        raw = copy.deepcopy(added.container)
        if field not in self._made:
            self.patch.add(f"{path}/-" if place == len(items) else f"{path}/{place}", raw)
        for position, moved in enumerate(others[place:], place + 1):
            moved.move(f"{path}/{position}")
        items.insert(place, raw)
        container = Container(raw, field, place, self.patch)
        container.view.fresh = True
        mine = [*others[:place], container, *others[place:]]
        rest = [each for each in self.containers if each.field != field]
        self._all = tuple([*mine, *rest] if field == "initContainers" else [*rest, *mine])

    def views(self, place: Place) -> tuple[ListView, ...] | None:
        """The lists that a place stands for (`known` from now on); None if a container can't be found."""
        if place in self.known:
            return self.known[place]
        kind, containers = place
        if not kind.in_container:
            owner = self.spec.descend(kind.within)
            found: tuple[ListView, ...] = (ListView(kind, owner, self.patch),)
        else:
            targets = self._targets(containers)
            if targets is None:
                return None
            found = tuple(container.list(kind) for container in targets)
        self.known[place] = found
        return found

    def objects(self, containers: Containers | None, keys: tuple[str, ...]) -> Sequence[ObjectView] | None:
        """The objects below the spec (None), or below each of the containers; None if one can't be found."""
        if containers is None:
            return (self.spec.descend(keys),)
        targets = self._targets(containers)
        return None if targets is None else [target.view.descend(keys) for target in targets]

    def _targets(self, containers: Containers) -> tuple[Container, ...] | None:
        if containers == "Spark":
            spark_container = self.spark_container
            return None if spark_container is None else (spark_container,)
        if isinstance(containers, Exactly):
            found = self.container(containers.name)
            return None if found is None else (found,)
        authors = self.containers
        if self.injected.containers:
            own, added = self.spark_container, self.injected.containers
            authors = tuple(each for each in authors if each is own or each.name not in added)
        if containers == "All":
            return authors
        by_name = {each.name: each for each in authors}
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
