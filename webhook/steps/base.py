"""What a feature step is, and the few pieces that several steps share. It must never look at a pod."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from webhook.changes import Change, EnsureItem, EnsureKey
from webhook.containers import Position
from webhook.kinds import MOUNTS, VOLUMES, Json, ListKind
from webhook.partial import of_container
from webhook.policy import values
from webhook.policy.cloud_identities import AwsItem, AzureItem, GcpItem
from webhook.policy.containers import AddedContainerItem
from webhook.policy.items import ConfigMapItem, Item, Model, SecretItem

_LABEL_LENGTH = 63
# What an object says beside the keys that a pod gets.
_SHARED = frozenset({"onConflict", "containers"})


@dataclass(frozen=True, slots=True)
class Step:
    """One feature step: how the items of one field of a role block become changes of a pod.

    Attributes:
        field: the field of the role block (`secrets`)
        changes: a valid item, placeholders filled in -> all that it needs; applied whole or not at all
        identity: item -> what makes two items the same one; a role block's item wins over `common`'s
        subject: item -> how messages name it (`secret lake-credentials`)
        items: the field's value -> its items, for fields that are not a list
    """

    field: str
    changes: Callable[[Any], Sequence[Change]]
    identity: Callable[[Any], Hashable]
    subject: Callable[[Any], str]
    items: Callable[[Any], Iterable[tuple[str, Any]]] = lambda value: (
        (f"[{at}]", item) for at, item in enumerate(value)
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and value of a map field (labels, annotations, nodeSelector)."""

    key: str
    value: str


def entries(value: dict[str, str]) -> Iterable[tuple[str, Entry]]:
    """The items of a map field."""
    return ((f"[{key}]", Entry(key, text)) for key, text in value.items())


def split_step(field: str) -> Step:
    """The step of an object of containers (securityContext): each of its keys is a feature of its own."""

    def key_of(item: Item) -> str:
        return next(iter(item.model_fields_set - _SHARED))

    def changes(item: Any) -> Sequence[Change]:
        key = key_of(item)
        return of_container({field: {key: getattr(item, key)}}, item.containers)

    return Step(field, changes, key_of, lambda item: f"{field} {key_of(item)}", _split)


def _split(value: Item | None) -> Iterable[tuple[str, Any]]:
    if value is None:
        return ()
    shared = {key: getattr(value, key) for key in _SHARED if key in value.model_fields_set}
    return (
        (f".{key}", type(value).model_construct({*shared, key}, **shared, **{key: getattr(value, key)}))
        for key in sorted(value.model_fields_set - _SHARED)
    )


def one(value: Item | None) -> Iterable[tuple[str, Any]]:
    """The items of a field that is one feature as a whole (hadoop)."""
    return () if value is None else (("", value),)


def field_step(
    block: type[Model],
    field: str,
    changes: Callable[[Any], Sequence[Change]],
    *,
    each: Callable[[Any], Iterable[tuple[str, Hashable, Any]]] | None = None,
) -> Step:
    """The step of a field that holds Kubernetes' own value, list or object as it is.

    An item is a block with nothing but (a part of) this field.

    Args:
        block: the class of the role block's fields that this one is of
        changes: (a part of) the field's value -> all that it needs
        each: the value -> (where, identity, part); each part is a feature of its own. By default it is one
    """

    def items(value: Any) -> Iterable[tuple[str, Any]]:
        if value is None:
            return ()
        parts = [("", field, value)] if each is None else each(value)
        return ((at, block.model_construct({field}, **{field: part})) for at, _, part in parts)

    def identity(item: Any) -> Hashable:
        value = getattr(item, field)
        return field if each is None else next(identity for _, identity, _ in each(value))

    def subject(item: Any) -> str:
        return field if each is None else f"{field} {shown(identity(item))}".rstrip()

    return Step(field, lambda item: changes(getattr(item, field)), identity, subject, items)


def by_key(value: dict[str, Any]) -> Iterable[tuple[str, Hashable, Any]]:
    """The parts of an object of which each key is a feature (`field_step`)."""
    return ((f".{key}", key, {key: inner}) for key, inner in value.items())


def by_item(kind: ListKind) -> Callable[[list[Any]], Iterable[tuple[str, Hashable, Any]]]:
    """The parts of a list of which each item is a feature (`field_step`)."""
    return lambda value: ((f"[{at}]", kind.identity(item), [item]) for at, item in enumerate(value))


def shown(identity: Hashable) -> str:
    """What of an identity a reader can see: its words."""
    parts = identity if isinstance(identity, tuple) else (identity,)
    return " ".join(str(part) for part in parts if isinstance(part, str | int) and part != "")


def projected_token(
    name: str, audience: str, file: str, item: AwsItem | AzureItem | GcpItem, path: str
) -> list[Change]:
    """A service account token for an audience: its volume, and its mount in containers.

    One that the provider's own webhook has added does as well, for however long it is valid, unless the
    policy states that: the webhook of EKS varies it from pod to pod.

    Args:
        name: of the volume
        file: the token's file name in it
        path: where it is mounted
    """
    seconds = item.tokenExpirationSeconds
    token = {"audience": audience, "expirationSeconds": seconds, "path": file}
    volume = {"name": name, "projected": {"sources": [{"serviceAccountToken": token}]}}
    wanted = VOLUMES.canonical(volume)

    def as_good(have: Json) -> bool:
        match have:
            case {"projected": {"sources": [{"serviceAccountToken": dict(theirs)}], **rest}}:
                same = {**theirs, "expirationSeconds": seconds}
                renewed = {**rest, "sources": [{"serviceAccountToken": same}]}
                return bool(VOLUMES.canonical({**have, "projected": renewed}) == wanted)
        return False

    stated = "tokenExpirationSeconds" in item.model_fields_set
    mount = {"name": name, "mountPath": path, "readOnly": True}
    return [
        EnsureItem(VOLUMES, volume, enough=None if stated else as_good),
        EnsureItem(MOUNTS, mount, item.containers),
    ]


def config_map_at(name: str, path: str, containers: str | Sequence[str]) -> list[Change]:
    """A ConfigMap's volume, and its read-only mount in containers."""
    volume: Json = {"name": volume_name(name, "configmap", {}), "configMap": {"name": name}}
    mount: Json = {"name": volume["name"], "mountPath": path, "readOnly": True}
    return [EnsureItem(VOLUMES, volume), EnsureItem(MOUNTS, mount, containers)]


def position(item: AddedContainerItem) -> Position:
    """Where an added container goes."""
    if item.before is not None:
        return Position("Before", item.before)
    if item.after is not None:
        return Position("After", item.after)
    return Position(item.position or "Last")


def volume_name(name: str, suffix: str, options: Json) -> str:
    """A legal and stable volume name for an object: `<name>-<suffix>` where that can be.

    A name with dots, one that is too long, and one with options get a hash, so that two volumes of different
    content never share a name. Spark's own MountSecretsFeatureStep names a plain secret's volume the same.
    """
    plain = f"{name}-{suffix}"
    if not options and len(plain) <= _LABEL_LENGTH and "." not in name:
        return plain
    digest = hashlib.sha256(json.dumps([name, options], sort_keys=True).encode()).hexdigest()[:8]
    tail = f"-{digest}-{suffix}"
    head = re.sub("[^a-z0-9-]", "-", name)[: _LABEL_LENGTH - len(tail)].rstrip("-")
    return head + tail


def projection(item: SecretItem | ConfigMapItem) -> Json:
    """The options that a Secret and a ConfigMap volume source share, as far as the policy states them."""
    options = {"items": item.items, "defaultMode": item.defaultMode, "optional": item.optional}
    return {key: value for key, value in options.items() if value is not None}


def mounted(volume: Json, item: SecretItem | ConfigMapItem) -> list[Change]:
    """A volume and its mount where a secrets or configMaps item wants it."""
    mount: Json = {"name": volume["name"], "mountPath": item.mountPath}
    if item.readOnly:
        mount["readOnly"] = True
    if item.subPath:
        mount["subPath"] = item.subPath
    return [EnsureItem(VOLUMES, volume), EnsureItem(MOUNTS, mount, item.containers)]


def map_step(field: str, word: str, *, label_values: bool) -> Step:
    """The step of a map field: every key is a feature of its own.

    Args:
        field: the field of the role block, and of the pod
        word: what messages call one key
        label_values: the values must have the syntax of label values, also once filled in
    """

    def changes(item: Entry) -> Sequence[Change]:
        wrong = values.label_value(item.value) if label_values else None
        if wrong is not None:
            raise ValueError(wrong)
        return [EnsureKey(field, item.key, item.value)]

    return Step(
        field=field,
        changes=changes,
        identity=lambda item: item.key,
        subject=lambda item: f"{word} {item.key}",
        items=entries,
    )
