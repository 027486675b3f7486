"""One YAML file is one case: what stated policies make of a pod (tests/cases/README.md has the format).

Every case goes through the public door, and what is promised for all pods is checked for each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import pytest
import yaml
from jsonpointer import JsonPointer, JsonPointerException

from tests import corpus, door
from webhook import steps

Json = dict[str, Any]

CASES = Path(__file__).parent / "cases"
FILES = sorted(CASES.glob("*/*.yaml"))
# Directories of cases that are not about one feature step.
TOPICS = {
    "grammar",
    "conf",
    "matching",
    "merging",
    "containers",
    "placeholders",
    "names",
    "parents",
    "status",
    "ignored",
    "conditions",
}
KEYS = {
    *("description", "review", "capture", "pod", "edit", "namespace", "namespaceLabels"),
    *("namespaceAnnotations", "policy", "policies", "expect"),
}
EXPECT = {
    *("patch", "pod", "absent", "replaces", "reason", "findings", "warnings", "denied", "status"),
    "policies",
}


class Loader(yaml.CSafeLoader):
    """YAML where a key that stands twice is an error: a case must not lose half of itself."""


def _mapping(loader: Loader, node: yaml.MappingNode) -> Json:
    keys = [key.value for key, _ in node.value if key.value != "<<"]
    assert len(keys) == len(set(keys)), f"a key stands twice{node.start_mark}"
    loader.flatten_mapping(node)
    return {
        loader.construct_object(key, deep=True): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


@dataclass(frozen=True)
class Case:
    """A case file, read and completed."""

    file: Path
    value: Json

    @property
    def sources(self) -> list[str]:
        """The pods it is about: names with their kind in front, `pod` for the inline one."""
        for kind in ("review", "capture"):
            if kind in self.value:
                names = self.value[kind]
                return [f"{kind}:{name}" for name in ([names] if isinstance(names, str) else names)]
        return ["pod:"]

    def review(self, source: str) -> Json:
        """The AdmissionReview of one of its sources."""
        kind, _, name = source.partition(":")
        namespace = self.value.get("namespace")
        if kind == "review":
            review = corpus.review(name)
        else:
            # a deep copy, since an inline pod belongs to the case
            value = corpus.pod(name) if kind == "capture" else yaml.load(yaml.dump(self.value["pod"]), Loader)
            review = corpus.admission_review(value, namespace=namespace or "jobs")
        request = review["request"]
        if namespace:
            request["namespace"] = namespace
            if "namespace" in request["object"]["metadata"]:
                request["object"]["metadata"]["namespace"] = namespace
        request["object"] = jsonpatch.JsonPatch(self.value.get("edit", [])).apply(request["object"])
        return review

    @property
    def policies(self) -> str:
        """Its policies and its namespace as one YAML text."""
        documents: list[Any] = []
        stated = self.value.get("policies", [])
        if "policy" in self.value:
            documents.append({"metadata": {"name": "the-policy"}, "spec": self.value["policy"]})
        documents += list(yaml.load_all(stated, Loader)) if isinstance(stated, str) else stated
        documents = [self._complete(document) for document in documents]
        labels, annotations = (self.value.get(f"namespace{part}") for part in ("Labels", "Annotations"))
        if labels or annotations:
            name = self.value.get("namespace", "jobs")
            metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
            documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        return yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)

    @staticmethod
    def _complete(document: Json) -> Json:
        ours = {"apiVersion": "sparkwebhook.dev/v1alpha1", "kind": "ClusterSparkPodPolicy"}
        return document if document.get("apiVersion") else {**ours, **document}


def read(file: Path) -> Case:
    """A case file.

    Raises:
        AssertionError: it has a key that no case has
    """
    value = yaml.load(file.read_text(), Loader)
    expect = value.get("expect") or {}
    unknown = (set(value) - KEYS) | (set(expect) - EXPECT)
    assert not unknown, f"{file.name}: unknown keys {sorted(unknown)}"
    assert value.get("description"), f"{file.name}: needs a description"
    assert expect, f"{file.name}: expects nothing"
    assert len({"review", "capture", "pod"} & set(value)) == 1, f"{file.name}: needs review, capture or pod"
    return Case(file, value)


def parameters() -> Iterator[Any]:
    """(case file, source): a case with several reviews counts once for each."""
    for file in FILES:
        for source in read(file).sources:
            name = str(file.relative_to(CASES).with_suffix(""))
            yield pytest.param(file, source, id=f"{name}[{source.partition(':')[2]}]")


@pytest.mark.parametrize(("file", "source"), list(parameters()))
def test_case(file: Path, source: str) -> None:
    case = read(file)
    policies = door.policy_set(case.policies)
    review = case.review(source)
    outcome = door.admit(review, policies)

    check(case.value["expect"], outcome)

    second = door.admit(door.again(outcome, review), policies)
    assert second.operations == [], "the second pass changes something"
    assert second.decision.allowed is outcome.decision.allowed
    defaulted = corpus.defaulted(outcome.after, review["request"]["namespace"])
    third = door.admit(door.again(outcome, review, defaulted), policies)
    assert third.operations == [], "the second pass changes something once defaults are filled in"
    assert door.new_problems(outcome) == []

    strange = case.review(source)
    strange["request"]["object"] = door.with_unknown_fields(strange["request"]["object"])
    stranger = door.admit(strange, policies)
    assert door.without_unknown_fields(stranger.after, stranger.before) == outcome.after


def check(expect: Json, outcome: door.Outcome) -> None:
    """Compare an outcome with all that a case expects, and with what it must not do unless it says so."""
    decision = outcome.decision
    findings = [(str(item.reason), item.policy, item.field) for item in decision.findings]
    wanted = [
        (item["reason"], item.get("policy", "the-policy"), item["field"])
        for item in expect.get("findings", [])
    ]
    assert sorted(findings) == sorted(wanted)
    assert sorted(door.rewritten(outcome)) == sorted(expect.get("replaces", []))
    assert decision.allowed is ("denied" not in expect)
    if "denied" in expect:
        assert expect["denied"] in outcome.response["status"]["message"]
        assert expect["denied"] in decision.message
    if "reason" in expect:
        assert str(decision.reason) == expect["reason"]
    if "policies" in expect:
        assert list(decision.policies) == expect["policies"]
    if "patch" in expect:
        assert without_status(outcome.operations) == expect["patch"]
    if "pod" in expect:
        difference = missing(expect["pod"], outcome.after, "")
        assert difference is None, difference
    for pointer in expect.get("absent", []):
        assert not found(outcome.after, pointer), f"{pointer} is there"
    for text in expect.get("warnings", []):
        assert any(text in warning for warning in decision.warnings()), decision.warnings()
    if "status" in expect:
        difference = missing(expect["status"], outcome.status, "status")
        assert difference is None, difference


def without_status(operations: list[Json]) -> list[Json]:
    """The operations but for what writes the status annotation."""
    kept = []
    for operation in operations:
        if operation["path"] == "/metadata/annotations":
            rest = {key: value for key, value in operation["value"].items() if key != door.STATUS}
            if rest:
                kept.append({**operation, "value": rest})
        elif operation["path"] != door.STATUS_PATH:
            kept.append(operation)
    return kept


def missing(wanted: Any, have: Any, where: str) -> str | None:
    """Where `have` lacks something of `wanted`: maps may hold more, lists too, but in the same order."""
    if isinstance(wanted, dict) and isinstance(have, dict):
        for key, value in wanted.items():
            if key not in have:
                return f"{where}/{key} is not there"
            difference = missing(value, have[key], f"{where}/{key}")
            if difference is not None:
                return difference
        return None
    if isinstance(wanted, list) and isinstance(have, list):
        rest = iter(have)
        for item in wanted:
            if all(missing(item, other, "") is not None for other in rest):
                return f"{where}: no {item} (in this order) among {have}"
        return None
    # True == 1 in Python, not in JSON
    same = wanted == have and isinstance(wanted, bool) == isinstance(have, bool)
    return None if same else f"{where} is {have!r}, not {wanted!r}"


def found(document: Json, pointer: str) -> bool:
    """True if there is something at the pointer."""
    try:
        JsonPointer(pointer).resolve(document)
    except JsonPointerException:
        return False
    return True


def test_every_step_has_cases() -> None:
    fields = {step.field for step in steps.STEPS}
    directories = {file.parent.name for file in FILES}

    assert fields - directories == set()
    assert directories - fields - TOPICS == set()
