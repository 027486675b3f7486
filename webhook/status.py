"""The status annotation: what a pod's owner can read on the pod itself.

JSON of at most 2 KiB that says the same on every pass over the same pod: what is in effect, not what this
pass had to write. It must never hold a value of the pod or of a policy, except labels (see `author_labels`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from webhook.policy.compiled import CompiledPolicy, Feature
from webhook.reasons import Reason

ANNOTATION = "sparkwebhook.dev/status"
LIMIT = 2048


Skipped = Mapping[CompiledPolicy, Mapping[Feature, Reason]]
"""The features that are not in effect and why; a policy that is not in it is in effect as a whole."""


def author_labels(
    labels: Mapping[str, str], annotations: Any, written: Mapping[str, frozenset[str] | None]
) -> tuple[Mapping[str, str], dict[str, str | None]]:
    """The pod's labels as its author set them, and those of an earlier pass that differ: key -> value before.

    Selectors and placeholders see the author's labels in every pass, also when a policy of an earlier pass
    (reinvocation) changed them. The record counts only for labels that now have a value which a policy
    writes (`written`: key -> values, None for any): forging it hides no label that the author chose.
    """
    record = _decode(annotations).get("authorLabels")
    if not isinstance(record, dict):
        return labels, {}
    before = {
        key: value
        for key, value in record.items()
        if (value is None or isinstance(value, str))
        and key in written
        and _by_policy(labels.get(key), written[key])
    }
    restored = {key: value for key, value in {**labels, **before}.items() if value is not None}
    return restored, before


def _by_policy(value: str | None, values: frozenset[str] | None) -> bool:
    return value is not None and (values is None or value in values)


def recorded_verdicts(annotations: Any) -> Mapping[str, Any]:
    """What an earlier pass found of policies' conditions: hash of a policy -> true, false or null (failed).

    Anybody can have written it (`webhook.conditional` says what that is worth).
    """
    record = _decode(annotations).get("conditions")
    return record if isinstance(record, dict) else {}


def render(
    role: str,
    policies: Sequence[CompiledPolicy],
    skipped: Skipped,
    *,
    replaced: Sequence[str],
    before: Mapping[str, str | None],
    verdicts: Mapping[str, bool | None],
    annotations: Any,
) -> str | None:
    """The annotation's new text; None if the one that is there says the same already.

    Args:
        role: of the pod
        policies: all that matched, in order
        skipped: what of them is not in effect
        replaced: subjects of features that took the place of an author's value in this pass
        before: labels that a policy changed and some selector, condition or placeholder reads
        verdicts: of conditions that read the pod, by the hash of their policy
        annotations: of the pod, as they are
    """
    known: dict[str, Any] = {}
    if isinstance(annotations, dict) and ANNOTATION in annotations:
        known = _decode(annotations)
    # An earlier pass knows of replacements that this one can't see: the values are the policy's by now.
    earlier = known.pop("replaced", None)
    tail: dict[str, Any] = {"authorLabels": dict(before)} if before else {}
    if verdicts:
        tail["conditions"] = dict(verdicts)
    head = _policies(role, policies, skipped, LIMIT - (len(orjson.dumps(tail)) if tail else 1))
    body = _joined(head, tail)
    if known and known == orjson.loads(body):
        if not replaced:
            return None
        replaced = [*(earlier if isinstance(earlier, list) else ()), *replaced]
    if replaced:
        full = _joined(head, {"replaced": list(replaced), **tail})
        body = full if len(full) <= LIMIT else body
    return body.decode()


def _joined(head: bytes, tail: dict[str, Any]) -> bytes:
    return head + (b"," + orjson.dumps(tail)[1:] if tail else b"}")


def _policies(role: str, policies: Sequence[CompiledPolicy], skipped: Skipped, room: int) -> bytes:
    """`{"policies":[...]` with as much detail as there is room for."""
    parts = [
        orjson.dumps(_entry(policy, role, skipped[policy], names=True))
        if policy in skipped
        else policy.applied[role]
        for policy in policies
    ]
    if _size(parts) > room:
        parts = [
            orjson.dumps(_entry(policy, role, skipped[policy], names=False))
            if policy in skipped
            else policy.applied_count[role]
            for policy in policies
        ]
    kept = list(parts)
    while kept and _size(kept) > room:
        kept.pop()
    more = b"" if len(kept) == len(parts) else b',"more":%d' % (len(parts) - len(kept))
    return b'{"policies":[' + b",".join(kept) + b"]" + more


def _size(parts: Sequence[bytes]) -> int:
    """Bytes of a list of entries at most, with all that stands around them."""
    return sum(map(len, parts)) + len(parts) + 40


def _entry(
    policy: CompiledPolicy, role: str, skipped: Mapping[Feature, Reason], *, names: bool
) -> dict[str, Any]:
    applied = [feature.subject for feature in policy.features[role] if feature not in skipped]
    told = [{"what": feature.subject, "reason": reason} for feature, reason in skipped.items()]
    return {
        "name": policy.name,
        "hash": policy.hash,
        "applied": applied if names else len(applied),
        "skipped": told if names else len(told),
    }


def _decode(annotations: Any) -> dict[str, Any]:
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return {}
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return decoded if isinstance(decoded, dict) else {}
