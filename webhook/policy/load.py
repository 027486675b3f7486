"""Policy files: reading them, and turning their text into checked policies or into errors with positions.

It never raises for what a file holds, and never stops at the first error. An error names the place and the
fix, and never a value. Only `read` touches the disk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from webhook.namespaces import Namespace
from webhook.policy import messages, notes, positions
from webhook.policy.check import check
from webhook.policy.model import API_VERSION, CLUSTER_KIND, NAMESPACED_KIND, Metadata, Policy
from webhook.policy.positions import Fault, Node
from webhook.policy.values import FixedDnsLabel

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_VERSIONS = {CLUSTER_KIND: API_VERSION, NAMESPACED_KIND: API_VERSION, "Namespace": "v1"}
_LISTS = [("v1", "List"), *((version, f"{kind}List") for kind, version in _VERSIONS.items())]
_KNOWN = f"write a {CLUSTER_KIND}, a {NAMESPACED_KIND} or a v1 Namespace"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a note; `str()` is `file:line:column: path: message`, 1-based, without an empty path."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}:{self.column}: {path}{self.message}"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the documents hold. A policy with an error is not among `policies`.

    Attributes:
        allowed: guardrails that are lifted
    """

    policies: tuple[Policy, ...] = ()
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    errors: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    allowed: frozenset[str] = frozenset()


def read(paths: Iterable[Path]) -> tuple[list[tuple[str, str]], list[Problem]]:
    """The texts of files, and of a directory's `*.yaml`, `*.yml` and `*.json`, by name; none hidden or below.

    What can't be read is a Problem; nothing is raised.
    """
    texts: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            files = sorted(filter(_is_policy_file, path.iterdir())) if path.is_dir() else [path]
        except OSError as error:
            problems.append(_unreadable(path, error))
            continue
        for file in files:
            try:
                texts.append((str(file), file.read_text(encoding="utf-8-sig")))
            except (OSError, UnicodeDecodeError) as error:
                problems.append(_unreadable(file, error))
    return texts, problems


def load(documents: Iterable[tuple[str, str]], *, allowed: frozenset[str] = frozenset()) -> Loaded:
    """Checks the documents of (file name, YAML text) pairs.

    `allowed` names guardrails that are lifted for namespaced policies, as "hostPath".
    """
    loader = _Loader(allowed)
    for file, text in documents:
        loader.add(file, text)
    return loader.loaded()


def _is_policy_file(path: Path) -> bool:
    if path.suffix not in _SUFFIXES or path.name.startswith("."):
        return False
    return path.is_file() or not path.exists()  # a link to nowhere is to be reported


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> Problem:
    if isinstance(error, UnicodeDecodeError):
        before = error.object[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        return Problem(str(path), line, column, "", "not UTF-8 text: save the file as UTF-8")
    return Problem(str(path), 1, 1, "", f"can't be read: {error.strerror or error}")


class _NamespaceMetadata(Metadata):
    name: FixedDnsLabel


class _NamespaceDocument(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    metadata: _NamespaceMetadata


class _Loader:
    """Collects what `Loaded` holds, document by document."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.files: list[str] = []
        self.policies: list[tuple[int, Node, Policy]] = []
        self.namespaces: dict[str, Namespace] = {}
        self.errors: list[tuple[int, Fault]] = []
        self.notes: list[tuple[int, Fault]] = []
        self.defined: dict[tuple[str, str, str], str] = {}

    def add(self, file: str, text: str) -> None:
        self.files.append(file)
        for document in positions.read(text):
            self._report(document.faults)
            if document.root is not None:
                self._object((), document.root, document.faults)

    def loaded(self) -> Loaded:
        policies = [policy for _, _, policy in self.policies]
        for index, note in notes.across(policies):
            file, root, _ = self.policies[index]
            self.notes.append((file, messages.fault(root, note.path, note.message)))
        return Loaded(
            tuple(policies),
            self.namespaces,
            self._problems(self.errors),
            self._problems(self.notes),
            self.allowed,
        )

    def _problems(self, found: list[tuple[int, Fault]]) -> tuple[Problem, ...]:
        """What was found, in the order of files and lines; what aliases multiply is said once."""
        once: dict[tuple[int, int, int, str], Fault] = {}
        for file, fault in found:
            once.setdefault((file, fault.line, fault.column, fault.message), fault)
        return tuple(
            Problem(self.files[file], line, column, positions.show(fault.path), positions.printable(message))
            for (file, line, column, message), fault in sorted(once.items(), key=lambda item: item[0][:3])
        )

    def _report(self, faults: Iterable[Fault], prefix: positions.Path = ()) -> None:
        file = len(self.files) - 1
        self.errors += ((file, dataclasses.replace(fault, path=prefix + fault.path)) for fault in faults)

    def _object(self, prefix: positions.Path, node: Node, syntax: list[Fault]) -> None:
        """Takes one object of a document; `syntax` are the document's faults, which are reported already."""
        if not isinstance(node.value, dict):
            return self._report([Fault(node.line, node.column, (), f"must be a mapping: {_KNOWN}")], prefix)
        kind, version = node.value.get("kind"), node.value.get("apiVersion")
        if (version, kind) in _LISTS:
            return self._list(prefix, node, syntax)
        if unknown := _unknown_kind(node):
            return self._report([unknown], prefix)
        inside = {fault.path[len(prefix) :] for fault in syntax if fault.path[: len(prefix)] == prefix}
        take = self._namespace if kind == "Namespace" else self._policy
        return self._report(take(node, inside), prefix)

    def _list(self, prefix: positions.Path, node: Node, syntax: list[Fault]) -> None:
        children = node.children if isinstance(node.children, dict) else {}
        items = children["items"][2].children if "items" in children else None
        if not isinstance(items, list):
            return self._report([messages.fault(node, ("items",), "must be a list of objects")], prefix)
        for index, item in enumerate(items):
            self._object((*prefix, "items", index), item, syntax)
        return None

    def _namespace(self, node: Node, syntax: set[positions.Path]) -> list[Fault]:
        """The faults of a Namespace, which is kept if there are none; `syntax` are the paths of its own."""
        found = list(self._defined_before(node))
        try:
            metadata = _NamespaceDocument.model_validate(node.value).metadata
        except ValidationError as error:
            return found + [fault for fault in messages.faults(error, node) if fault.path not in syntax]
        if not (found or syntax):
            namespace = Namespace(metadata.name, metadata.labels, metadata.annotations)
            self.namespaces[namespace.name] = namespace
        return found

    def _policy(self, node: Node, syntax: set[positions.Path]) -> list[Fault]:
        """The faults of a policy, which is kept if there are none; `syntax` are the paths of its own."""
        policy, found = check(node, self.allowed, syntax)
        doubled = list(self._defined_before(node))
        if policy is not None and not doubled:
            file = len(self.files) - 1
            self.policies.append((file, node, policy))
            self.notes += ((file, messages.fault(node, note.path, note.message)) for note in notes.of(policy))
        return found + doubled

    def _defined_before(self, node: Node) -> Iterator[Fault]:
        metadata = node.value.get("metadata")
        name, namespace = (
            (metadata.get("name"), metadata.get("namespace")) if isinstance(metadata, dict) else ("", "")
        )
        if not isinstance(name, str) or not name:
            return
        fault = messages.fault(node, ("metadata", "name"), "")
        here = f"{self.files[-1]}:{fault.line}"
        key = (node.value["kind"], str(namespace), name)
        before = self.defined.setdefault(key, here)
        if before is not here:
            yield dataclasses.replace(
                fault, message=f"{key[0]} {name} is already defined at {before}: rename or remove one"
            )


def _unknown_kind(node: Node) -> Fault | None:
    """The fault of an object that is neither a policy nor a Namespace."""
    kind, version = node.value.get("kind"), node.value.get("apiVersion")
    if not isinstance(kind, str):
        return messages.fault(node, ("kind",), f"{'must be text' if kind else 'is missing'}: {_KNOWN}")
    wanted = _VERSIONS.get(kind)
    if wanted is None:
        hint = messages.near(kind, list(_VERSIONS))
        return messages.fault(node, ("kind",), f"unknown kind, {hint}")
    if version != wanted:
        return messages.fault(node, ("apiVersion",), f"must be {wanted} for a {kind}")
    return None
