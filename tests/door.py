"""An admission as the HTTP handler does it, bytes in and bytes out, and what must be true of every answer.

`admit` asserts what holds for every pod and every policy; callers add what they expect of theirs. It must
never look at how the product does it: only at request, answer and Decision.
"""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jsonpatch
from jsonpointer import JsonPointer

from tests import corpus, kubernetes_schema
from webhook import review as wire
from webhook.admission import Decision
from webhook.admission import admit as decide
from webhook.policy.load import load
from webhook.policy.policy_set import PolicySet, compile_policies

Json = dict[str, Any]
STATUS = "sparkwebhook.dev/status"
STATUS_PATH = "/metadata/annotations/sparkwebhook.dev~1status"
_OF_THE_FUTURE = re.compile(r"\('future\w+' was unexpected\)")
UNKNOWN = {"x-future": {"a": [1, {"b": None}], "~/": "t"}}


@dataclass(frozen=True)
class Outcome:
    """What became of one request.

    Attributes:
        before: the object as it was sent
        after: the object as admission left it, checked to be what the patch makes of `before`
        operations: of the patch; empty if the answer has none
        status: the decoded status annotation of `after`, if it has one
    """

    decision: Decision
    response: Json
    before: Json
    after: Json
    operations: list[Json]

    @property
    def status(self) -> Any:
        text = (self.after["metadata"].get("annotations") or {}).get(STATUS)
        return None if text is None else json.loads(text)


def policy_set(text: str) -> PolicySet:
    """The compiled policies of a YAML text, which must be free of errors."""
    loaded = load([("policies.yaml", text)])
    assert not loaded.errors, "\n".join(map(str, loaded.errors))
    return compile_policies(loaded.policies, loaded.namespaces)


def admit(review: Json, policies: PolicySet) -> Outcome:
    """Send a review of a pod's creation through; fails if the answer breaks a promise that holds for all."""
    before = copy.deepcopy(review["request"]["object"])
    request = wire.decode(corpus.body(review))
    decision = decide(request, policies)
    answer = json.loads(wire.encode(request["uid"], decision))
    response = answer["response"]
    assert (answer["apiVersion"], answer["kind"]) == (review["apiVersion"], "AdmissionReview")
    assert response["uid"] == review["request"]["uid"]
    assert response["allowed"] is decision.allowed
    assert ("patch" in response) == ("patchType" in response)
    operations: list[Json] = []
    if "patch" in response:
        assert decision.allowed
        assert response["patchType"] == "JSONPatch"
        operations = json.loads(base64.b64decode(response["patch"], validate=True))
        assert operations, "an empty patch says nothing"
    after = request["object"] if decision.allowed else copy.deepcopy(before)
    assert jsonpatch.JsonPatch(operations).apply(copy.deepcopy(before)) == after
    _check_warnings(response.get("warnings", []), decision)
    assert len(((after["metadata"].get("annotations") or {}).get(STATUS) or "").encode()) <= 2048
    return Outcome(decision, response, before, after, operations)


def again(outcome: Outcome, review: Json, changed: Json | None = None) -> Json:
    """The review of the same pod's reinvocation: the mutated object (or another one), a new uid."""
    value = copy.deepcopy(outcome.after if changed is None else changed)
    request = {**review["request"], "uid": "6c0f6b0a-93f3-4a5c-8a4b-2d1f4d1f8a0e", "object": value}
    return {**review, "request": request}


def rewritten(outcome: Outcome) -> list[str]:
    """Pointers to what the patch took away or overwrote, the status annotation excepted.

    Everything else it did was putting something beside what the author wrote, so nothing else can be lost.
    """
    document, found = copy.deepcopy(outcome.before), []
    for operation in outcome.operations:
        pointer = operation["path"]
        if pointer != STATUS_PATH and not _adds(document, operation):
            found.append(pointer)
        document = jsonpatch.JsonPatch([operation]).apply(document)
    return found


def _adds(document: Json, operation: Json) -> bool:
    if operation["op"] != "add":
        return False
    parts = JsonPointer(operation["path"]).parts
    holder: Any = document
    for part in parts[:-1]:
        holder = holder[int(part)] if isinstance(holder, list) else holder[part]
    return isinstance(holder, list) or holder.get(parts[-1]) is None


def _check_warnings(warnings: list[str], decision: Decision) -> None:
    assert warnings == decision.warnings()
    for text in warnings:
        assert text
        assert len(text) <= 120, text
        assert text.isprintable(), text
    assert sum(map(len, warnings)) <= 4096


# --- unknown fields ---------------------------------------------------------------------------------------


def with_unknown_fields(value: Json) -> Json:
    """A copy of a pod with fields that nobody knows at every level where they change no item's meaning."""
    result = copy.deepcopy(value)
    for holder in _open_objects(result):
        holder.update(copy.deepcopy(UNKNOWN))
    return result


def without_unknown_fields(value: Json, sent: Json) -> Json:
    """The reverse of `with_unknown_fields`; fails if one of those fields that `sent` had is gone."""
    result, kept = copy.deepcopy(value), 0
    for holder in _open_objects(result):
        if any(key in holder for key in UNKNOWN):
            assert {key: holder.pop(key, None) for key in UNKNOWN} == UNKNOWN
            kept += 1
    assert kept == sum(1 for _ in _open_objects(sent))
    return result


def _open_objects(pod: Json) -> Iterator[Json]:
    yield pod
    yield pod["metadata"]
    spec = pod["spec"]
    yield spec
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or []:
            yield container
            for part in ("securityContext", "resources", "lifecycle", "livenessProbe"):
                if isinstance(container.get(part), dict):
                    yield container[part]
    for part in ("affinity", "securityContext"):
        if isinstance(spec.get(part), dict):
            yield spec[part]


def new_problems(outcome: Outcome) -> list[str]:
    """What an API server would refuse of the mutated pod and would not have refused of the original."""
    known = set(kubernetes_schema.problems(outcome.before))
    # A field that it does not know yet, an API server drops: no reason to refuse the pod.
    return [
        text
        for text in kubernetes_schema.problems(outcome.after)
        if text not in known and not _OF_THE_FUTURE.search(text)
    ]
