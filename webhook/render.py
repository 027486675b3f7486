"""What the webhook would make of a pod, without a server: the same loading, decoding and deciding.

It must never decide anything itself, nor print or read files: the command line does that.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonpatch

from webhook import review, show
from webhook.admission import Decision, MalformedPod, admit
from webhook.namespaces import Namespace
from webhook.policy.load import Loaded
from webhook.policy.policy_set import compile_policies

Form = Literal["yaml", "json", "patch", "diff"]
_LISTS = ("List", "PodList")


class Unusable(Exception):
    """The input holds nothing that the webhook could be asked about; the message says what and where."""


@dataclass(frozen=True, slots=True)
class RenderedPod:
    """One pod as it came, as it would be stored, and why. A denied pod's `after` means nothing."""

    before: dict[str, Any]
    after: dict[str, Any]
    decision: Decision


@dataclass(frozen=True, slots=True)
class Rendering:
    """A file's pods, and its documents with each pod as it would be stored, in the order of the file."""

    documents: list[Any] = field(default_factory=list)
    pods: list[RenderedPod] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Kinds of the documents that are no pods; they stay as they are."""

    @property
    def denied(self) -> bool:
        """True if the API server would refuse any of the pods."""
        return any(not pod.decision.allowed for pod in self.pods)

    def report(self) -> Iterator[str]:
        """What there is to say about it, a line each: every pod's outcome and each finding, with codes."""
        for pod in self.pods:
            yield from explain(pod.decision)
        for kind in self.others:
            yield f"{kind}: not a pod, left as it is"

    def lines(self, form: Form) -> Iterator[str]:
        """The text of the result, a line each.

        Several pods: `yaml` keeps the documents, `json` makes them one List, `patch` is an array for each
        pod and `diff` a diff for each.
        """
        match form:
            case "yaml":
                yield from show.lines("---\n".join(map(show.to_yaml, self.documents)))
            case "json":
                one = len(self.documents) == 1
                whole = {"apiVersion": "v1", "kind": "List", "items": self.documents}
                yield from show.lines(show.to_json(self.documents[0] if one else whole))
            case "patch":
                for pod in self.pods:
                    yield from show.lines(show.to_json_lines(pod.decision.operations))
            case "diff":
                for pod in self.pods:
                    name = pod.decision.pod
                    yield from show.diff(pod.before, pod.after, name, f"{name} (mutated)")


def explain(decision: Decision) -> Iterator[str]:
    """A line on what became of the pod, then one for each finding."""
    who = f"{decision.role or 'pod'} {decision.pod} in namespace {decision.namespace}"
    yield f"{who}: {decision.reason}: {decision.message or decision.reason.explain}"
    if decision.policies:
        yield f"  policies: {', '.join(decision.policies)}; operations: {len(decision.operations)}"
    for finding in decision.findings:
        yield f"  {finding}"


def render_text(
    text: str, loaded: Loaded, namespace: str | None = None, labels: Mapping[str, str] | None = None
) -> Rendering:
    """Decides about every pod and AdmissionReview of a text.

    Args:
        text: YAML or JSON; several documents and lists of pods are taken too.
        loaded: policies and namespaces, without errors.
        namespace: the namespace of the request; by default the review's, else the pod's own, else `default`.
        labels: added to the labels of every namespace that is asked about.

    Raises:
        Unusable: the text is neither YAML nor JSON, holds no pod, or something that cannot be a pod.
    """
    try:
        documents = show.parse(text)
    except ValueError as error:
        raise Unusable(f"neither YAML nor JSON: {error}") from None
    if not documents:
        raise Unusable("is empty: a Pod or an AdmissionReview is expected")
    reviews = [[_review(item, namespace) for item in _items(document)] for document in documents]
    if not any(item for group in reviews for item in group):
        kinds = sorted({_kind(item) for document in documents for item in _items(document)})
        raise Unusable(f"holds no Pod and no AdmissionReview, but {', '.join(kinds) or 'an empty list'}")

    requests = [[item and _decode(item) for item in group] for group in reviews]
    asked = {request["namespace"] for group in requests for request in group if request}
    policies = compile_policies(
        loaded.policies, _namespaces(loaded.namespaces, asked, labels or {}), allowed=loaded.allowed
    )

    result = Rendering()
    for document, group in zip(documents, requests, strict=True):
        items = []
        for item, request in zip(_items(document), group, strict=True):
            if request is None:
                result.others.append(_kind(item))
                items.append(item)
                continue
            before = copy.deepcopy(request["object"])
            try:
                decision = admit(request, policies)
            except MalformedPod as error:
                raise Unusable(str(error)) from None
            # As an API server does it: by the operations alone, whatever the core left behind.
            after = jsonpatch.JsonPatch(decision.operations).apply(before)
            result.pods.append(RenderedPod(before, after, decision))
            items.append(after)
        result.documents.append({**document, "items": items} if _kind(document) in _LISTS else items[0])
    return result


def _items(document: Any) -> list[Any]:
    if _kind(document) not in _LISTS:
        return [document]
    items = document.get("items")
    return items if isinstance(items, list) else []


def _kind(document: Any) -> str:
    if not isinstance(document, dict):
        names: dict[type, str] = {list: "a list", str: "text", bool: "a boolean", type(None): "null"}
        return names.get(type(document), "a number")
    kind = document.get("kind")
    return kind if isinstance(kind, str) else "an object without a kind"


def _review(item: Any, namespace: str | None) -> dict[str, Any] | None:
    """The AdmissionReview to ask with; None for what is no pod."""
    kind = _kind(item)
    if kind == "Pod":
        own = _own(item, "namespace")
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "render",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "name": _own(item, "name"),
                "namespace": namespace or own or "default",
                "operation": "CREATE",
                "userInfo": {},
                "object": item,
            },
        }
    if kind != "AdmissionReview":
        return None
    request = item.get("request")
    if not isinstance(request, dict):
        return dict(item)
    own = request.get("namespace") or _own(request.get("object"), "namespace")
    return {**item, "request": {**request, "namespace": namespace or own or "default"}}


def _own(item: Any, key: str) -> str:
    """A text of the object's metadata; of other types, the core says what is wrong with them."""
    metadata = item.get("metadata") if isinstance(item, dict) else None
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _decode(item: dict[str, Any]) -> dict[str, Any]:
    try:
        request = review.decode(json.dumps(item).encode())
    except review.BadReview as error:
        raise Unusable(str(error)) from None
    if not isinstance(request.get("object"), dict):
        raise Unusable(f"the review ({request.get('operation')}) holds no object that could be shown")
    return request


def _namespaces(
    known: Mapping[str, Namespace], asked: Iterable[str], labels: Mapping[str, str]
) -> dict[str, Namespace]:
    result = dict(known)
    for name in asked:
        old = known.get(name, Namespace(name))
        result[name] = Namespace(name, {**old.labels, **labels}, old.annotations)
    return result
