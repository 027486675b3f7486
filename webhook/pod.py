"""SparkPod: a view on the raw pod of a request: its role, application, containers, lists and maps.

Its parts are found when they are first asked for. It must never decide whether a change is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webhook import spark
from webhook.kinds import ENV, Json, ListKind
from webhook.namespaces import Namespace
from webhook.patch import Patch
from webhook.views import ListView, MalformedPod, MapView, dotted, text_of

Place = tuple[ListKind, str | tuple[str, ...]]
"""A kind of list, and for a container's the containers: `Spark`, `All` or names."""


class Container:
    """One container or init container of the pod, and its lists."""

    __slots__ = ("_lists", "_patch", "name", "path", "raw")

    def __init__(self, raw: Any, path: str, patch: Patch) -> None:
        if not isinstance(raw, dict):
            raise MalformedPod(dotted(path), "expected a container")
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
