"""`match.conditions` of a policy: what its author writes, and asking them about a pod.

All conditions must be true. One that has no value makes the policy fail, unless another is false, as in
Kubernetes (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
#matching-requests-matchconditions). It must never change what it is given, nor let a value into a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field

from webhook.namespaces import Namespace
from webhook.policy import placeholders
from webhook.policy.expressions import MAX_LENGTH, Expression, InvalidExpression, compile_expression, said
from webhook.policy.items import Model
from webhook.policy.values import FixedLabelKey, fault

MAX_CONDITIONS = 64
# Of one admission's steps: together they take a fifth of a second at most.
BUDGET = 1_000_000
_MAX_VALUES = 20_000
_TEXT_UNIT = 64
_OBJECT: Final = frozenset({"object", "pod"})


def _checked(text: str) -> str:
    if placeholders.present(text):
        raise fault("placeholders can't be used here: read the value from object or namespaceObject")
    try:
        compile_expression(text)
    except InvalidExpression as error:
        raise fault(str(error)) from None
    return text


class Condition(Model):
    """A CEL expression that must be true of a pod, as in Kubernetes' matchConditions."""

    name: FixedLabelKey = Field(
        description="Names the condition in messages; unique in the policy.", examples=["from-our-registry"]
    )
    expression: Annotated[str, AfterValidator(_checked)] = Field(
        description=(
            "CEL that gives true or false. It reads object (also called pod: the pod as its author sent it), "
            "namespaceObject (metadata alone) and request (the AdmissionRequest without its objects). "
            "A policy whose condition has no value, say since a field is not there, is skipped."
        ),
        examples=["object.spec.containers.all(c, c.image.startsWith('registry.example.com/'))"],
        json_schema_extra={"maxLength": MAX_LENGTH},
    )


@dataclass(frozen=True, slots=True)
class Failed:
    """A condition that could be told to be neither true nor false."""

    condition: str
    why: str

    def __str__(self) -> str:
        return f"{self.condition}: {self.why}" if self.condition else self.why


Verdict = bool | Failed


@dataclass(frozen=True, slots=True)
class Subject:
    """What the conditions of all policies are asked about.

    Attributes:
        pod: as it is now
        labels: as its author set them
        request: the AdmissionRequest
        hidden: annotations that are not the author's
    """

    pod: Mapping[str, Any]
    labels: Mapping[str, str]
    namespace: Namespace
    request: Mapping[str, Any]
    hidden: frozenset[str]


class Budget:
    """The steps that are left for the conditions of one admission."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET

    def pays(self, cost: int) -> bool:
        self.left -= cost
        return self.left >= 0


@dataclass(frozen=True, slots=True, eq=False)
class Conditions:
    """A policy's conditions, compiled: (name, expression) in order."""

    _each: Sequence[tuple[str, Expression]]

    @property
    def read_the_pod(self) -> bool:
        """False if what they say can't be changed by what policies do to the pod."""
        return any(not _OBJECT.isdisjoint(expression.variables) for _, expression in self._each)

    @property
    def labels(self) -> frozenset[str]:
        """Whatever could be the key of a label that they read."""
        words = (expression.words for _, expression in self._each if "labels" in expression.words)
        return frozenset().union(*words)

    def verdict(self, subject: Subject, budget: Budget) -> Verdict:
        """True if the policy is for this pod."""
        failed: Failed | None = None
        for name, expression in self._each:
            why = _ask(expression, subject, budget)
            if why is False:
                return False
            if why is not True:
                failed = failed or Failed(name, why)
        return True if failed is None else failed


def compile_conditions(conditions: Sequence[Condition]) -> Conditions | None:
    """The conditions ready to be asked; None if there are none."""
    if not conditions:
        return None
    return Conditions(tuple((each.name, compile_expression(each.expression)) for each in conditions))


def _ask(expression: Expression, subject: Subject, budget: Budget) -> bool | str:
    """True or false, or why it is neither."""
    variables = {name: _variable(name, expression.words, subject) for name in expression.variables}
    longest, size = _measure(variables)
    if size > _MAX_VALUES or not budget.pays(expression.steps(longest, size)):
        return "what it reads is too large"
    try:
        value = expression.evaluate(variables)
    except Exception as error:
        return said(error)
    return value if isinstance(value, bool) else "it gives something else than true or false"


def _variable(name: str, words: frozenset[str], subject: Subject) -> dict[str, Any]:
    """The value of a variable, as far as the expression can read it: converting all of a pod takes long.

    Pod, metadata, spec, containers and the request have fields, which an expression can only name. Maps
    and whatever is deeper are whole.
    """
    if name == "namespaceObject":
        namespace = subject.namespace
        metadata = {
            "name": namespace.name,
            "labels": dict(namespace.labels),
            "annotations": dict(namespace.annotations),
        }
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    if name == "request":
        return {
            key: value
            for key, value in subject.request.items()
            if key in words and key not in ("object", "oldObject")
        }
    pod: dict[str, Any] = _named(subject.pod, words)
    if "metadata" in pod:
        pod["metadata"] = metadata = _named(pod["metadata"], words)
        if "labels" in metadata:
            metadata["labels"] = dict(subject.labels)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            kept = {key: value for key, value in annotations.items() if key not in subject.hidden}
            metadata["annotations"] = kept
            if not kept:
                del metadata["annotations"]
    if "spec" in pod:
        pod["spec"] = spec = _named(pod["spec"], words)
        for field in ("containers", "initContainers"):
            items = spec.get(field)
            if isinstance(items, list):
                spec[field] = [_named(item, words) for item in items]
    return pod


def _named(value: Any, words: frozenset[str]) -> Any:
    """An object's fields that an expression names; what is null counts as absent, as in a typed object."""
    if not isinstance(value, Mapping):
        return value
    return {key: inner for key, inner in value.items() if key in words and inner is not None}


def _measure(variables: dict[str, Any]) -> tuple[int, int]:
    """The entries of the longest list or map, and how many values there are,
    long texts counted more than once; counting ends at the limit."""
    longest, size = 0, 0
    waiting: list[Any] = [*variables.values()]
    while waiting and size <= _MAX_VALUES:
        value = waiting.pop()
        size += 1
        if isinstance(value, str):
            size += len(value) // _TEXT_UNIT
        elif isinstance(value, dict):
            longest = max(longest, len(value))
            waiting += value.values()
        elif isinstance(value, list):
            longest = max(longest, len(value))
            waiting += value
    return longest, size
