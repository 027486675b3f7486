"""Which of the policies whose selectors match are for a pod: their conditions, asked once for all passes.

A second pass (reinvocation) sees what policies did in the first, which may make a condition true or false.
So the first pass records in the status annotation what it found. Anybody can write that annotation, so the
record only counts where lying about it gains nothing:

- false, for a policy that is not mandatory: its author may exclude the pod from it anyway;
- true, for a policy that no mandatory one comes after (it might lose to it): the policy is `held`, which
  means that it is in effect with what is in the pod already, and nothing more of it is written.

Else what the conditions say now counts, which keeps a mandatory policy in force whatever a pod claims.
It must never let a value of the pod into a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from webhook import status
from webhook.policy.compiled import CompiledPolicy
from webhook.policy.conditions import Budget, Failed, Subject, Verdict

# So that the record leaves the status annotation room for the policies themselves.
_MAX_RECORDED = 32
_ABSENT = object()


@dataclass(slots=True)
class Matching:
    """The policies for a pod, in order.

    Attributes:
        policies: those whose conditions are true, and those that failed
        failed: those of them whose conditions are neither true nor false, with the reason
        held: those of them of which nothing more is written
        verdicts: what the status annotation is to record (`status.render`)
    """

    policies: list[CompiledPolicy]
    failed: dict[CompiledPolicy, Failed] = field(default_factory=dict)
    held: set[CompiledPolicy] = field(default_factory=set)
    verdicts: dict[str, bool | None] = field(default_factory=dict)


def settle(candidates: Sequence[CompiledPolicy], subject: Subject) -> Matching:
    """Ask the conditions of the policies that the selectors chose."""
    matching = Matching([])
    budget = Budget()
    record = status.recorded_verdicts(subject.pod["metadata"].get("annotations"))
    for index, policy in enumerate(candidates):
        conditions = policy.conditions
        if conditions is not None:
            verdict = conditions.verdict(subject, budget)
            if conditions.read_the_pod and len(matching.verdicts) < _MAX_RECORDED:
                verdict = _recorded(verdict, record, policy, candidates[index + 1 :], matching)
                matching.verdicts[policy.hash] = verdict if isinstance(verdict, bool) else None
            if verdict is False:
                continue
            if isinstance(verdict, Failed):
                matching.failed[policy] = verdict
        matching.policies.append(policy)
    return matching


def _recorded(
    verdict: Verdict,
    record: Mapping[str, Any],
    policy: CompiledPolicy,
    after: Sequence[CompiledPolicy],
    matching: Matching,
) -> Verdict:
    """The verdict of an earlier pass if it differs from this one's and counts, else this one's."""
    before = record.get(policy.hash, _ABSENT)
    if before is True and verdict is not True and not any(other.mandatory for other in after):
        matching.held.add(policy)
        return True
    if before is False and verdict is not False and not policy.mandatory:
        return False
    if before is None and isinstance(verdict, bool) and not policy.mandatory:
        return Failed("", "it was neither for the pod as its author sent it")
    return verdict
