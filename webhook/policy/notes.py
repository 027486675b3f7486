"""Things in a policy that are legal but risky: what a careful reviewer would ask about.

It sees checked policies only, and must never show a value of a variable or annotation.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from webhook import spark
from webhook.changes import EnsureItem
from webhook.defaults import mount_path
from webhook.policy import guardrails, placeholders, places
from webhook.policy.conditions import compile_conditions
from webhook.policy.items import EnvItem, OnConflict, VolumeItem
from webhook.policy.lint import BLOCKS, overlap
from webhook.policy.model import Policy
from webhook.policy.positions import Path
from webhook.policy.role_block import RoleBlock

# Directories that images have files of their own in.
_OF_THE_IMAGE = frozenset(
    f"/{name}"
    for name in (
        *(
            "",
            "bin",
            "dev",
            "etc",
            "home",
            "lib",
            "lib64",
            "opt",
            "proc",
            "root",
            "sbin",
            "sys",
            "usr",
            "var",
        ),
        *("opt/spark", "opt/spark/bin", "opt/spark/jars", "usr/bin", "usr/lib", "usr/local"),
    )
)
# A scratch volume there is usual; a Secret's or ConfigMap's files are not.
_TEMPORARY = "/tmp"
_CREDENTIAL = re.compile(
    r"PASSWORD|PASSWD|SECRET|TOKEN|CREDENTIAL|(^|_)KEY(_|$)|APIKEY|ACCESSKEY", re.IGNORECASE
)
_ABOUT_A_CREDENTIAL = re.compile(r"_(FILE|PATH|DIR|URL|URI|NAME|ALIAS|TYPE|ID|TTL|ENABLED)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about the part of a policy document that the path leads to."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class _Mount:
    """Where something is mounted; `files` is true for a Secret or ConfigMap."""

    path: Path
    at: str
    containers: Any
    files: bool


def of(policy: Policy) -> Iterator[Note]:
    """The notes on one policy by itself."""
    spec = policy.spec
    selector = spec.match.podSelector
    if not any(_asks(getattr(spec, name)) for name in BLOCKS):
        yield Note(("spec",), "asks for nothing: neither common, driver nor executor has a feature")
    if spec.mandatory and selector and not set(_selected(policy)) <= spark.LABELS:
        message = (
            "a mandatory policy that pods escape by leaving out a label: their authors choose their labels"
        )
        yield Note(("spec", "match", "podSelector"), message)
    conditions = compile_conditions(spec.match.conditions)
    if spec.mandatory and conditions is not None and conditions.read_the_pod:
        message = "a mandatory policy that pods escape by what their authors write, if a condition reads it"
        yield Note(("spec", "match", "conditions"), message)
    yield from _rejects(policy)
    mounts: dict[str, list[_Mount]] = {}
    for name in BLOCKS:
        prefix, block = ("spec", name), getattr(spec, name)
        mounts[name] = list(_mounts(prefix, block))
        yield from _exposed(prefix, block)
        for guardrail, path in guardrails.broken(block.model_dump(exclude_unset=True)):
            yield Note((*prefix, *path), guardrails.EXPLAINED[guardrail])
        for index, item in enumerate(block.env):
            if _literal_credential(item):
                message = "looks like a credential in plain text: keep it in a Secret and use valueFrom"
                yield Note((*prefix, "env", index, "value"), message)
        for index, volume in enumerate(block.volumes):
            yield from _volume((*prefix, "volumes", index), volume)
        for mount in mounts[name]:
            yield from _hidden(mount)
    yield from _nested(mounts["common"], [])
    yield from _nested(mounts["driver"], mounts["common"])
    yield from _nested(mounts["executor"], mounts["common"])


def _asks(block: RoleBlock) -> bool:
    return any(getattr(block, field) for field in RoleBlock.model_fields)


def _rejects(policy: Policy) -> Iterator[Note]:
    spec = policy.spec
    if spec.mandatory:
        return
    message = "executors are not rejected unless the policy is mandatory: for them it acts as Keep"
    reject = OnConflict.REJECT
    if spec.onConflict is reject:
        if _asks(spec.common) or _asks(spec.executor):
            yield Note(("spec", "onConflict"), message)
        return
    for name in ("common", "executor"):
        block: RoleBlock = getattr(spec, name)
        for field in RoleBlock.model_fields:
            value = getattr(block, field)
            if getattr(value, "onConflict", None) is reject:
                yield Note(("spec", name, field, "onConflict"), message)
            for index, item in enumerate(value if isinstance(value, list) else ()):
                if getattr(item, "onConflict", None) is reject:
                    yield Note(("spec", name, field, index, "onConflict"), message)


def _exposed(prefix: Path, block: RoleBlock) -> Iterator[Note]:
    """Secrets and tokens that every container gets."""
    message = "goes into every sidecar and init container, whoever added it: name the containers that need it"
    for path, item, changes in places.features(block):
        asked = [change for change in changes if isinstance(change, EnsureItem)]
        everywhere = any(change.place[0].in_container and change.place[1] == "All" for change in asked)
        if everywhere and any(_holds_a_secret(change.item) for change in asked):
            at = ("containers",) if hasattr(item, "containers") else ()
            yield Note((*prefix, *path, *at), f"a secret that {message}")


def _holds_a_secret(item: Any) -> bool:
    """True for a variable, a source of variables or a volume with a Secret or a token in it."""
    match item:
        case {"valueFrom": {"secretKeyRef": _}} | {"secretRef": _} | {"secret": _}:
            return True
        case {"projected": {"sources": list(sources)}}:
            return any("secret" in source or "serviceAccountToken" in source for source in sources)
    return False


def _literal_credential(item: EnvItem) -> bool:
    if not _CREDENTIAL.search(item.name) or _ABOUT_A_CREDENTIAL.search(item.name):
        return False
    value = item.value or ""
    return bool(value) and "$(" not in value and not placeholders.present(value) and value[0] != "/"


def _volume(path: Path, volume: VolumeItem) -> Iterator[Note]:
    source = getattr(volume, volume.source)
    if not volume.mounts:
        yield Note(path, "has no mounts: it is added to the pod, but no container sees it")
    if volume.source == "emptyDir" and source.get("medium") == "Memory" and "sizeLimit" not in source:
        message = "memory without a sizeLimit: what is written there can use up the pod's memory"
        yield Note((*path, "emptyDir", "medium"), message)


def _mounts(prefix: Path, block: RoleBlock) -> Iterator[_Mount]:
    for field in ("secrets", "configMaps"):
        for index, item in enumerate(getattr(block, field)):
            path = (*prefix, field, index, "mountPath")
            yield _Mount(path, mount_path(item.mountPath), item.containers, files=True)
    for index, volume in enumerate(block.volumes):
        for number, mount in enumerate(volume.mounts):
            path = (*prefix, "volumes", index, "mounts", number, "mountPath")
            yield _Mount(path, mount_path(mount.mountPath), mount.containers, files=False)


def _hidden(mount: _Mount) -> Iterator[Note]:
    if mount.at in _OF_THE_IMAGE or (mount.at == _TEMPORARY and mount.files):
        yield Note(mount.path, "hides what images have in this directory: mount it at a directory of its own")
    for parent in _parents(mount.at):
        if spark.own_path(parent) is not None:
            message = (
                f"lies inside of {parent}, which is mounted read-only already: containers may fail to start"
            )
            yield Note(mount.path, message)


def _nested(mounts: Sequence[_Mount], outer: Sequence[_Mount]) -> Iterator[Note]:
    """Mounts that lie inside of another; only pairs with one of `mounts` in it."""
    by_path: dict[str, list[_Mount]] = {}
    for mount in (*mounts, *outer):
        by_path.setdefault(mount.at, []).append(mount)
    own = {mount.path for mount in mounts}
    for mount in (*mounts, *outer):
        for parent in _parents(mount.at):
            if any(
                (mount.path in own or other.path in own) and overlap(mount.containers, other.containers)
                for other in by_path.get(parent, ())
            ):
                yield Note(mount.path, f"lies inside of {parent}, which this policy mounts too")


def _parents(path: str) -> Iterator[str]:
    """The directories above an absolute path, without the root."""
    while (path := posixpath.dirname(path)) not in ("/", ""):
        yield path


def across(policies: Sequence[Policy]) -> Iterator[tuple[int, Note]]:
    """The notes on policies that meet each other, each with the index of the policy it is about."""
    yield from _unseen_labels(policies)
    yield from _ties(policies)


def _unseen_labels(policies: Sequence[Policy]) -> Iterator[tuple[int, Note]]:
    readers: dict[str, list[int]] = {}
    for index, policy in enumerate(policies):
        for key in _selected(policy):
            readers.setdefault(key, []).append(index)
    for index, policy in enumerate(policies):
        for name in BLOCKS:
            for key in dict(getattr(policy.spec, name).written_labels()):
                other = next((i for i in readers.get(key, ()) if i != index), None)
                if other is not None:
                    message = (
                        f"the podSelector of {_title(policies[other])} reads this label, "
                        "but sees only labels that the pod's author has set"
                    )
                    yield index, Note(("spec", name, "labels", key), message)


def _ties(policies: Sequence[Policy]) -> Iterator[tuple[int, Note]]:
    """Policies for the same pods that set one thing to different values, with nothing but names to decide."""
    first: dict[tuple[object, ...], tuple[int, object]] = {}
    noted: set[tuple[int, Path]] = set()
    for index in sorted(range(len(policies)), key=lambda index: policies[index].name):
        policy = policies[index]
        scope = (policy.kind, policy.namespace, policy.spec.priority, policy.spec.match.model_dump_json())
        for role in (spark.DRIVER, spark.EXECUTOR):
            for identity, (value, path) in _stated_for(policy, role).items():
                other, others = first.setdefault((*scope, role, *identity), (index, value))
                if other != index and others != value and (index, path) not in noted:
                    noted.add((index, path))
                    message = (
                        f"{_title(policies[other])} has the same priority and sets this too; "
                        "it goes first only by its name: give one of them another priority"
                    )
                    yield index, Note(path, message)


def _stated_for(policy: Policy, role: str) -> dict[tuple[str, str], tuple[object, Path]]:
    """What a policy sets for a role, by identity; the role's own block wins."""
    return {
        identity: (value, path)
        for name in ("common", role)
        for identity, value, path in _stated(("spec", name), getattr(policy.spec, name))
    }


def _stated(prefix: Path, block: RoleBlock) -> Iterator[tuple[tuple[str, str], object, Path]]:
    for field in ("labels", "annotations", "nodeSelector"):
        for key, value in getattr(block, field).items():
            yield (field, key), value, (*prefix, field, key)
    for index, item in enumerate(block.env):
        if item.join is None:
            yield ("env", item.name), (item.value, item.valueFrom), (*prefix, "env", index)
    for index, volume in enumerate(block.volumes):
        yield ("volumes", volume.name), volume.volume(), (*prefix, "volumes", index)


def _selected(policy: Policy) -> list[str]:
    """The label keys that a policy's podSelector reads."""
    selector = policy.spec.match.podSelector
    if selector is None:
        return []
    return [*selector.matchLabels, *(requirement.key for requirement in selector.matchExpressions)]


def _title(policy: Policy) -> str:
    return f"{policy.kind} {policy.name}"
