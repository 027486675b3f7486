"""What is wrong with a policy although each of its values is right: doubled items, limits of its scope.

It reads the raw document, so that one wrong value elsewhere does not hide what it finds; what it does not
understand it passes over, since the model reports that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from webhook import spark
from webhook.defaults import mount_path
from webhook.policy import grammar, guardrails, messages, positions
from webhook.policy.model import CLUSTER_KIND, NAMESPACED_KIND
from webhook.policy.positions import Fault, Node, Path

BLOCKS = ("common", "driver", "executor")
SECRET_ENV = {
    "GCPServiceAccount": "GOOGLE_APPLICATION_CREDENTIALS",
    "HadoopDelegationToken": spark.TOKEN_ENV,
}
_SOURCE_DEPTH = len(("spec", "common", "volumes", 0, "emptyDir"))
_SPARK_CONTAINERS = frozenset(name for names in spark.CONTAINER_NAMES.values() for name in names)


def errors(root: Node, allowed: frozenset[str]) -> Iterator[Fault]:
    """The faults of a policy document; `allowed` names the guardrails that are lifted."""
    yield from _scope(root, allowed)
    yield from _requests(root, allowed)
    spec = _mapping(_mapping(root.value).get("spec"))
    for name in BLOCKS:
        block = _mapping(spec.get(name))
        for entries in (
            _mounts(block), _variables(block), _volumes(block),
            _tolerations(block), _env_from(block), _pull_secrets(block),
            _containers(block), _agents(block), _ports(block),
        ):  # fmt: skip
            yield from _doubled(root, ("spec", name), entries)


def empty(root: Node) -> Iterator[Fault]:
    """Whatever in `spec` has no value: a forgotten one must not count as "not set"."""
    spec = root.children.get("spec") if isinstance(root.children, dict) else None
    waiting: list[tuple[Path, int, int, Node]] = [(("spec",), *spec)] if spec else []
    while waiting:
        path, line, column, node = waiting.pop()
        if node.value is None:
            source = (
                f", as in {path[-1]}: {{}}"
                if path[2:3] == ("volumes",) and len(path) == _SOURCE_DEPTH
                else ""
            )
            yield Fault(line, column, path, f"has no value: give it one{source}, or remove it")
        elif isinstance(node.children, dict):
            waiting += (((*path, key), *child) for key, child in node.children.items())
        elif isinstance(node.children, list):
            waiting += (((*path, i), item.line, item.column, item) for i, item in enumerate(node.children))


def _scope(root: Node, allowed: frozenset[str]) -> Iterator[Fault]:
    document = _mapping(root.value)
    metadata, spec = _mapping(document.get("metadata")), _mapping(document.get("spec"))
    if document.get("kind") == CLUSTER_KIND:
        if "namespace" in metadata:
            message = f"a {CLUSTER_KIND} has no namespace: remove it, or make it a {NAMESPACED_KIND}"
            yield messages.fault(root, ("metadata", "namespace"), message, at_key=True)
        return
    if "namespace" not in metadata:
        message = f"is missing: a {NAMESPACED_KIND} is for the pods of its own namespace"
        yield messages.fault(root, ("metadata", "namespace"), message)
    if "namespaceSelector" in _mapping(spec.get("match")):
        message = f"only for a {CLUSTER_KIND}: remove it, a {NAMESPACED_KIND} is for its own namespace"
        yield messages.fault(root, ("spec", "match", "namespaceSelector"), message, at_key=True)
    for name in BLOCKS:
        for guardrail, path in guardrails.broken(spec.get(name)):
            if guardrail not in allowed:
                message = (
                    f"not allowed in a {NAMESPACED_KIND}: it {guardrails.EXPLAINED[guardrail]}; use a "
                    f"{CLUSTER_KIND}, or lift it for all with `serve --allow {guardrail}`"
                )
                yield messages.fault(root, ("spec", name, *path), message, at_key=True)


def _requests(root: Node, allowed: frozenset[str]) -> Iterator[Fault]:
    """What is wrong with keys of Spark's grammar."""
    document = _mapping(root.value)
    pairs = _mapping(_mapping(document.get("spec")).get("sparkConf"))
    texts = {key: value for key, value in pairs.items() if isinstance(key, str) and isinstance(value, str)}
    for found in grammar.read(texts):
        path = ("spec", "sparkConf", grammar.first_key(found.key, texts))
        if isinstance(found, grammar.Wrong):
            yield messages.fault(root, path, found.message, at_key=True)
        elif document.get("kind") == NAMESPACED_KIND:
            for guardrail, _ in guardrails.broken(found.block.model_dump(exclude_unset=True)):
                if guardrail not in allowed:
                    message = f"not allowed in a {NAMESPACED_KIND}: it {guardrails.EXPLAINED[guardrail]}"
                    yield messages.fault(root, path, message, at_key=True)


@dataclass(frozen=True, slots=True)
class _Entry:
    """An identity that a role block may hold only once in any one container."""

    identity: tuple[str | None, ...]
    path: Path
    what: str
    containers: Any = "All"


def _doubled(root: Node, prefix: Path, entries: Iterable[_Entry]) -> Iterator[Fault]:
    seen: dict[tuple[str | None, ...], list[_Entry]] = {}
    for entry in entries:
        others = seen.setdefault(entry.identity, [])
        first = next((other for other in others if overlap(entry.containers, other.containers)), None)
        if first is None:
            others.append(entry)
            continue
        there = messages.fault(root, (*prefix, *first.path), "")
        where = f"on line {there.line}" if there.line else f"in {positions.show(there.path)}"
        message = f"{entry.what} is already {where}: remove one of them"
        yield messages.fault(root, (*prefix, *entry.path), message)


def overlap(one: Any, other: Any) -> bool:
    """True if two values of `containers` can mean one container."""
    if "All" in (one, other) or one == other:
        return True
    names = [set(_SPARK_CONTAINERS) if value == "Spark" else _names(value) for value in (one, other)]
    return bool(names[0] & names[1])


def listed(containers: Any) -> Any:
    """The containers of a change as `overlap` knows them; of the pod itself (None) there is one."""
    return "All" if containers is None else list(containers) if isinstance(containers, tuple) else containers


def _names(value: Any) -> set[str]:
    return {name for name in value if isinstance(name, str)} if isinstance(value, list) else set()


def _mounts(block: dict[str, Any]) -> Iterator[_Entry]:
    for name in ("secrets", "configMaps"):
        for index, item in _items(block, name):
            yield from _mount((name, index), item)
    for index, volume in _items(block, "volumes"):
        for number, item in _items(volume, "mounts"):
            yield from _mount(("volumes", index, "mounts", number), item)


def _mount(path: Path, item: dict[str, Any]) -> Iterator[_Entry]:
    inside = item.get("mountPath")
    if isinstance(inside, str):
        containers = item.get("containers", "Spark")
        yield _Entry((mount_path(inside),), (*path, "mountPath"), "this mountPath", containers)


def _variables(block: dict[str, Any]) -> Iterator[_Entry]:
    for index, item in _items(block, "env"):
        if isinstance(name := item.get("name"), str):
            yield _Entry((name,), ("env", index, "name"), "this variable", item.get("containers", "Spark"))
    for index, item in _items(block, "secrets"):
        if isinstance(kind := item.get("type"), str) and (name := SECRET_ENV.get(kind)):
            what = f"its variable {name}"
            yield _Entry((name,), ("secrets", index, "type"), what, item.get("containers", "Spark"))


def _volumes(block: dict[str, Any]) -> Iterator[_Entry]:
    yield from _named(block, "volumes", "a volume of this name")


def _pull_secrets(block: dict[str, Any]) -> Iterator[_Entry]:
    yield from _named(block, "imagePullSecrets", "this secret")


def _containers(block: dict[str, Any]) -> Iterator[_Entry]:
    for field in ("initContainers", "sidecars"):
        yield from _named(block, field, "a container of this name")


def _agents(block: dict[str, Any]) -> Iterator[_Entry]:
    yield from _named(block, "javaAgents", "an agent of this name")


def _ports(block: dict[str, Any]) -> Iterator[_Entry]:
    for index, item in _items(block, "ports"):
        number, protocol = item.get("containerPort"), item.get("protocol") or "TCP"
        if isinstance(number, int) and isinstance(protocol, str):
            containers = item.get("containers", "Spark")
            yield _Entry((str(number), protocol), ("ports", index), "this port", containers)


def _named(block: dict[str, Any], field: str, what: str) -> Iterator[_Entry]:
    for index, item in _items(block, field):
        if isinstance(name := item.get("name"), str):
            yield _Entry((name,), (field, index, "name"), what)


def _tolerations(block: dict[str, Any]) -> Iterator[_Entry]:
    for index, item in _items(block, "tolerations"):
        parts = [item.get(key) or default for key, default in _TOLERATION]
        if all(isinstance(part, str) for part in parts):
            yield _Entry(tuple(parts), ("tolerations", index), "this toleration")


_TOLERATION = (("key", ""), ("operator", "Equal"), ("value", ""), ("effect", ""))


def _env_from(block: dict[str, Any]) -> Iterator[_Entry]:
    for index, item in _items(block, "envFrom"):
        for kind in ("configMapRef", "secretRef"):
            name, prefix = _mapping(item.get(kind)).get("name"), item.get("prefix") or ""
            if isinstance(name, str) and isinstance(prefix, str):
                identity, containers = (prefix, kind, name), item.get("containers", "Spark")
                yield _Entry(identity, ("envFrom", index), "the same source and prefix", containers)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(block: dict[str, Any], field: str) -> Iterator[tuple[int, dict[str, Any]]]:
    found = block.get(field)
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, dict):
            yield index, item
