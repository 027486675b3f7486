"""The pure core: from a request, the policies and what is known of namespaces to a Decision.

No I/O, no clock, no globals. The request's object is changed in place, and every change is recorded as an
RFC 6902 operation; nothing is copied or compared afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from webhook import spark, status, validity
from webhook.changes import Change, EnsureKey
from webhook.conditional import Matching, settle
from webhook.decision import Decision, Finding
from webhook.namespaces import Namespace
from webhook.objects import MalformedPod
from webhook.plan import Plan, Refusal
from webhook.pod import Exactly, Injected, SparkPod
from webhook.policy import requests
from webhook.policy.compiled import CompiledPolicy, Feature, injected
from webhook.policy.conditions import Subject
from webhook.policy.placeholders import MissingValue
from webhook.policy.policy_set import PolicySet
from webhook.reasons import Reason

__all__ = ["Decision", "Finding", "MalformedPod", "admit"]

EXCLUDE_ANNOTATION = "sparkwebhook.dev/exclude"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-public", "kube-node-lease"})

_OUR_ANNOTATIONS = frozenset({status.ANNOTATION})


def admit(request: dict[str, Any], policies: PolicySet) -> Decision:
    """Decide on an AdmissionReview's request.

    Args:
        request: the decoded `request`; its `object` is changed in place
        policies: what applies

    Raises:
        MalformedPod: the object is not what an API server would send
    """
    namespace = request.get("namespace")
    if not isinstance(namespace, str):
        namespace = ""
    skip = _out_of_scope(request, namespace, policies.own_namespace)
    raw = request.get("object")
    if skip is not None or not isinstance(raw, dict):
        return Decision(True, skip or Reason.NOT_A_POD, namespace=namespace)
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        raise MalformedPod("metadata", "expected an object")
    annotations = metadata.get("annotations")
    labels = metadata.get("labels") or {}
    if not isinstance(labels, dict):
        raise MalformedPod("metadata.labels", "expected a map")
    decision = Decision(True, Reason.NO_POLICY, namespace=namespace, pod=_name(metadata))
    if isinstance(annotations, dict) and MIRROR_ANNOTATION in annotations:
        decision.reason = Reason.MIRROR_POD
        return decision
    role = labels.get(spark.ROLE_LABEL)
    if not isinstance(role, str) or role not in spark.MARKER_ENV:
        decision.reason = Reason.UNKNOWN_SPARK_ROLE if role else Reason.NO_SPARK_ROLE
        return decision
    if not all(value is None or isinstance(value, str) for value in labels.values()):
        raise MalformedPod("metadata.labels", "expected strings as values")
    decision.role = role
    before: dict[str, str | None] = {}
    if policies.read_labels:
        labels, before = status.author_labels(labels, annotations, policies.read_labels)
    conf = requests.of(policies, annotations) if role == spark.DRIVER else None
    if conf is not None:
        # What the author asks for there is as much the author's as the labels on the pod.
        labels = {**conf.labels[role], **labels}
    candidates = [policy for policy in policies.matching(namespace, labels) if policy.features[role]]
    known = policies.namespace(namespace)
    if policies.conditional and any(policy.conditions is not None for policy in candidates):
        matching = settle(candidates, Subject(raw, labels, known, request, _OUR_ANNOTATIONS))
        in_effect = [policy for policy in matching.policies if policy not in matching.failed]
    else:
        matching, in_effect = Matching(candidates), candidates
    if conf is not None:
        matching.policies = requests.ordered(matching.policies, conf)
        in_effect = [*in_effect, conf.policy]
    if not matching.policies:
        return decision
    # A copy: the pod's own labels change while policies are applied.
    pod = _Subject(raw, role, known, dict(labels), injected(in_effect, role))
    delicate = policies.delicate or conf is not None
    if not delicate or not any(role in policy.delicate for policy in in_effect):
        return _apply(pod, decision, policies.read_labels, before, matching, careful=False)
    # All at once, and feature by feature only if Kubernetes would refuse the result: that is rare, and to
    # look at what each feature does costs as much as all else together.
    sent = orjson.dumps({"metadata": metadata, "spec": raw.get("spec")})
    result = replace(decision, findings=[])
    _apply(pod, result, policies.read_labels, dict(before), matching, careful=False)
    original: dict[str, Any] = orjson.loads(sent)
    if result.allowed and _problem(original["spec"], raw["spec"]) is None:
        return result
    raw.update(original)
    return _apply(pod, decision, policies.read_labels, before, matching, careful=True)


class _Subject(NamedTuple):
    """What a SparkPod is made of."""

    raw: dict[str, Any]
    role: str
    namespace: Namespace
    labels: Mapping[str, str]
    injected: Injected


def _apply(
    subject: _Subject,
    decision: Decision,
    read_labels: Mapping[str, frozenset[str] | None],
    before: dict[str, str | None],
    matching: Matching,
    *,
    careful: bool,
) -> Decision:
    """Apply the policies to the pod as it is, and complete the decision."""
    pod = SparkPod(*subject)
    admission = _Admission(pod, decision, read_labels, before, matching, careful=careful)
    admission.run(pod.metadata.get("annotations"))
    return decision


def _problem(before: dict[str, Any], after: dict[str, Any]) -> validity.Problem | None:
    try:
        return validity.new_problem(before, after)
    except (AttributeError, TypeError) as error:
        raise MalformedPod("spec", "expected fields as Kubernetes has them") from error


def _out_of_scope(request: dict[str, Any], namespace: str, own_namespace: str) -> Reason | None:
    kind, resource = request.get("kind"), request.get("resource")
    if (isinstance(kind, dict) and kind.get("kind") != "Pod") or request.get("subResource"):
        return Reason.NOT_A_POD
    if isinstance(resource, dict) and resource.get("resource") != "pods":
        return Reason.NOT_A_POD
    if request.get("operation") != "CREATE":
        return Reason.NOT_A_CREATE
    if namespace in SYSTEM_NAMESPACES or namespace == own_namespace:
        return Reason.SYSTEM_NAMESPACE
    return None


def _name(metadata: dict[str, Any]) -> str:
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return name
    return f"{prefix}*" if isinstance(prefix, str) else ""


class _Admission:
    """Applying the matching policies to one pod.

    With `careful`, the result of each delicate feature is looked at before it is applied.
    """

    def __init__(
        self,
        pod: SparkPod,
        decision: Decision,
        read_labels: Mapping[str, frozenset[str] | None],
        before: dict[str, str | None],
        matching: Matching,
        *,
        careful: bool,
    ) -> None:
        self.careful = careful
        self.pod = pod
        self.plan = Plan(pod)
        self.decision = decision
        self.findings = decision.findings
        self.replaced: list[str] = []
        self.read_labels = read_labels
        self.before = before
        self.matching = matching

    def run(self, annotations: Any) -> None:
        """Apply the policies in order and write the outcome to the decision."""
        decision, role, policies = self.decision, self.pod.role, self.matching.policies
        excluded = _excluded(annotations)
        decision.policies = tuple([policy.name for policy in policies])
        not_in_effect: dict[CompiledPolicy, Mapping[Feature, Reason]] = {}
        for policy in policies:
            features = policy.features[role]
            if excluded and not policy.mandatory and ("true" in excluded or policy.short_name in excluded):
                self.findings.append(Finding(Reason.EXCLUDED, policy.name, "", "all of the policy"))
                skipped: Mapping[Feature, Reason] = dict.fromkeys(features, Reason.EXCLUDED)
            elif policy in self.matching.failed:
                why = str(self.matching.failed[policy])
                self.findings.append(
                    Finding(Reason.CONDITION_FAILED, policy.name, "", "all of the policy", why)
                )
                skipped = dict.fromkeys(features, Reason.CONDITION_FAILED)
            else:
                skipped = (self._apply_whole if policy.atomic else self._apply_each)(policy, features)
            if skipped:
                not_in_effect[policy] = skipped
        rejected = [finding for finding in self.findings if finding.reason is Reason.CONFLICT_REJECTED]
        if rejected:
            decision.allowed = False
            decision.reason = Reason.DENIED
            decision.message = _denial(rejected)
            return
        decision.operations = self.pod.patch.operations
        decision.reason = Reason.MUTATED if decision.operations else Reason.UNCHANGED
        text = status.render(
            role,
            policies,
            not_in_effect,
            replaced=self.replaced,
            before=self.before,
            verdicts=self.matching.verdicts,
            annotations=self.pod.metadata.get("annotations"),
        )
        if text is not None:
            self._annotate(text)

    def _apply_each(self, policy: CompiledPolicy, features: tuple[Feature, ...]) -> Mapping[Feature, Reason]:
        skipped: dict[Feature, Reason] = {}
        plan = self.plan
        held = policy in self.matching.held
        for feature in features:
            changes = feature.static
            refusal = self._check(feature) if changes is None else plan.check(feature.on_conflict, changes)
            if self.careful and feature.delicate and refusal is None:
                refusal = self._invalid((feature,))
            if held and refusal is None:
                refusal = self._beyond()
            if refusal is not None:
                plan.refuse()
                skipped[feature] = self._skip(policy, feature, refusal)
            elif plan.replacing or self.read_labels:
                self._write(policy, (feature,))
            else:
                plan.write()
        return skipped

    def _apply_whole(self, policy: CompiledPolicy, features: tuple[Feature, ...]) -> Mapping[Feature, Reason]:
        for feature in features:
            refusal = self._check(feature)
            if self.careful and feature.delicate and refusal is None:
                refusal = self._invalid(features[: features.index(feature) + 1])
            if policy in self.matching.held and refusal is None:
                refusal = self._beyond()
            if refusal is not None:
                self.plan.refuse()
                cause = self._skip(policy, feature, refusal)
                self.findings.append(Finding(Reason.POLICY_WITHDRAWN, policy.name, "", "all of the policy"))
                return dict.fromkeys(features, Reason.POLICY_WITHDRAWN) | {feature: cause}
        self._write(policy, features)
        return {}

    def _check(self, feature: Feature) -> Refusal | None:
        try:
            return self.plan.check(feature.on_conflict, self._changes(feature))
        except MissingValue as error:
            return Refusal(Reason.NO_VALUE, str(error))
        except ValueError as error:
            return Refusal(Reason.INVALID_VALUE, str(error))

    def _beyond(self) -> Refusal | None:
        """Of a policy that is held, what is not in the pod already is not written."""
        return Refusal(Reason.CONDITION_FAILED, "no longer true") if self.plan.edits else None

    def _changes(self, feature: Feature) -> Sequence[Change]:
        return feature.filled(self.pod.placeholder) if feature.static is None else feature.static

    def _invalid(self, features: Sequence[Feature]) -> Refusal | None:
        """Apply features that were checked to a copy of the pod, and see what Kubernetes says of the result.

        What does not go together stays as it is from then on, so that a second pass finds it the same.
        """
        if not self.plan.edits:
            return None
        pod = self.pod
        copied = orjson.loads(orjson.dumps({"metadata": pod.metadata, "spec": pod.spec.raw}))
        trial = Plan(SparkPod(copied, pod.role, pod.namespace, pod.labels, pod.injected))
        for feature in features:
            trial.check(feature.on_conflict, self._changes(feature))
        trial.write()
        problem = _problem(pod.spec.raw or {}, copied["spec"])
        if problem is None:
            return None
        for container, (*within, key) in problem.places:
            place = None if container is None else Exactly(container)
            for view in pod.objects(place, tuple(within)) or ():
                view.claims.setdefault(key, self._changes(features[-1])[0])
                view.firm.add(key)
        return Refusal(Reason.WOULD_BE_INVALID, problem.text)

    def _write(self, policy: CompiledPolicy, features: tuple[Feature, ...]) -> None:
        plan = self.plan
        if self.read_labels:
            for key, value in plan.label_changes():
                if key in self.read_labels:
                    self.before.setdefault(key, value)
        plan.write()
        if plan.replacing:
            for feature in features:
                if feature.id in plan.replacing:
                    self.replaced.append(feature.subject)
                    self.findings.append(
                        Finding(Reason.REPLACED, policy.name, feature.field, feature.subject)
                    )
            plan.replacing = []

    def _skip(self, policy: CompiledPolicy, feature: Feature, refusal: Refusal) -> Reason:
        reason = refusal.reason
        if reason is Reason.CONFLICT_KEPT and feature.softened:
            reason = Reason.EXECUTOR_NOT_REJECTED
        self.findings.append(Finding(reason, policy.name, feature.field, feature.subject, refusal.detail))
        return reason

    def _annotate(self, text: str) -> None:
        wanted = EnsureKey("annotations", status.ANNOTATION, text)
        if self.plan.check("Replace", [wanted]) is None:
            self.plan.write()


def _excluded(annotations: Any) -> frozenset[str]:
    text = annotations.get(EXCLUDE_ANNOTATION) if isinstance(annotations, dict) else None
    return frozenset(part.strip() for part in text.split(",")) if isinstance(text, str) else frozenset()


def _denial(rejected: list[Finding]) -> str:
    first = rejected[0]
    more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
    return (
        f"policy {first.policy}, spec.{first.field}: {first.subject}: {first.reason.explain}{more}. "
        "Remove it from the job's own configuration, where the policy sets it, or ask the policy's owner."
    )
