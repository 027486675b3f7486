"""The requests of a pod's own author, in the annotation `sparkwebhook.dev/conf`: Spark's grammar, a key a
line.

They become one more policy, which no pod can be excluded from and which keeps what the pod has. What can't be
done, and what only policies may ask for, is a feature that says so. It must never raise for what a pod holds,
and never put a value into a text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from webhook.plan import Refused
from webhook.policy import grammar, guardrails, placeholders, values
from webhook.policy.compiled import CompiledPolicy, Feature, compile_wishes
from webhook.policy.items import OnConflict
from webhook.policy.model import Metadata, Policy, PolicySpec
from webhook.policy.policy_set import Conf, PolicySet
from webhook.reasons import Reason
from webhook.steps import STEPS
from webhook.steps.base import Entry

ANNOTATION = "sparkwebhook.dev/conf"

_MAX_BYTES, _MAX_LINES = 64 * 1024, 256
_MAX_CACHED = 256
_LONGEST_NAMED = 253


def of(policies: PolicySet, annotations: Any) -> Conf | None:
    """What a pod's annotations ask for; None if they have no requests."""
    text = annotations.get(ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(text, str):
        return None
    found = policies.confs.get(text)
    if found is None:
        if len(policies.confs) >= _MAX_CACHED:
            policies.confs.clear()
        found = policies.confs[text] = _compile(text, policies.allowed)
    return found


def ordered(policies: list[CompiledPolicy], conf: Conf) -> list[CompiledPolicy]:
    """The mandatory policies, the requests, the other policies; each kind in its order."""
    mandatory = [policy for policy in policies if policy.mandatory]
    return [*mandatory, conf.policy, *(policy for policy in policies if not policy.mandatory)]


def _compile(text: str, allowed: frozenset[str]) -> Conf:
    pairs: dict[str, str] = {}
    refused: list[tuple[str, Refused]] = []
    for key, value in _lines(text):
        if isinstance(value, Refused):
            refused.append((key, value))
        else:
            pairs[key] = value
    wishes = []
    for found in grammar.read(pairs):
        if isinstance(found, grammar.Wrong):
            refused.append((found.key, Refused(Reason.INVALID_CONF, found.message)))
            continue
        stated = found.block.model_dump(exclude_unset=True)
        guarded = [name for name, _ in guardrails.broken(stated) if name not in allowed]
        if guarded:
            refused.append((found.key, Refused(Reason.GUARDED, guarded[0])))
        elif found.block.labels and next(placeholders.names(stated), None) is not None:
            # Selectors see these labels in every pass, so they must be known before any pass.
            refused.append((found.key, Refused(Reason.INVALID_CONF, "no placeholders in a label")))
        else:
            wishes.append(found)
    spec = PolicySpec(mandatory=True, sparkConf=pairs)
    policy = Policy(
        apiVersion="sparkwebhook.dev/v1alpha1",
        kind="ClusterSparkPodPolicy",
        metadata=Metadata(name="conf"),
        spec=spec,
    )
    compiled = compile_wishes(policy, ANNOTATION, wishes)
    never = tuple(_never(_named(key), change) for key, change in refused)
    features = {role: (*items, *never) for role, items in compiled.features.items()}
    labels = {
        role: {
            key: value
            for wish in wishes
            if wish.role in ("", role)
            for key, value in wish.block.labels.items()
        }
        for role in grammar.ROLES
    }
    return Conf(replace(compiled, features=features), labels)


def _lines(text: str) -> Iterator[tuple[str, str | Refused]]:
    """The pairs of a text, and what of it is none."""
    if len(text.encode("utf-8", "surrogatepass")) > _MAX_BYTES:
        yield (
            ANNOTATION,
            Refused(Reason.INVALID_CONF, f"more than {_MAX_BYTES // 1024} KiB: nothing of it is used"),
        )
        return
    seen: set[str] = set()
    for number, written in enumerate(text.split("\n"), 1):
        if number > _MAX_LINES:
            yield (
                ANNOTATION,
                Refused(Reason.INVALID_CONF, f"more than {_MAX_LINES} lines: the rest is not used"),
            )
            return
        line = written.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            yield f"line {number}", Refused(Reason.INVALID_CONF, "write it as key=value")
        elif key in seen:
            yield key, Refused(Reason.INVALID_CONF, "stands twice: the first one counts")
        elif values.any_text_error(value):
            # The text itself would show a part of the value.
            yield key, Refused(Reason.INVALID_CONF, "it holds a placeholder that is not known, or a NUL")
        else:
            seen.add(key)
            yield key, value


def _named(key: str) -> str:
    """A key of the author's as it can stand in a message."""
    return "".join(char if char.isprintable() else "?" for char in key[:_LONGEST_NAMED])


def _never(key: str, change: Refused) -> Feature:
    """A feature that only tells why it is none."""
    field = f"sparkConf[{key}]"
    change.feature = f"{ANNOTATION} {field}"
    return Feature(
        id=change.feature,
        field=field,
        subject=key,
        on_conflict=OnConflict.KEEP.value,
        softened=False,
        static=(change,),
        delicate=False,
        _step=STEPS[0],
        _item=Entry(key, ""),
        _raw=None,
        _placeholders=(),
        _unfilled=(change,),
    )
