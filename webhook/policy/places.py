"""What the features of one role block ask for, place by place: two of them must not want different things.

A pod has room for one of them only, so the other would never be applied. Doubled items of one field are found
before (webhook.policy.lint); here it does not matter which fields meet. It must never show a value.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from webhook.plan import Change
from webhook.policy import grammar, messages, positions
from webhook.policy.lint import BLOCKS, listed, overlap
from webhook.policy.model import Policy
from webhook.policy.positions import Fault, Node, Path
from webhook.policy.role_block import RoleBlock
from webhook.steps import STEPS

_PART = re.compile(r"\[([^\]]*)\]|\.([^.\[]+)")


class Asked(NamedTuple):
    """One feature of a block.

    Attributes:
        path: where it stands, in the block or in the spec
        item: the item, as the step has it
        changes: what it asks for, with placeholders as they are written; nothing if that can't be told
    """

    path: Path
    item: Any
    changes: Sequence[Change]


def features(block: RoleBlock) -> Iterator[Asked]:
    """The features of a block, in the order in which they are applied."""
    for step in STEPS:
        if step.field not in block.model_fields_set:
            continue
        for at, item in step.items(getattr(block, step.field)):
            try:
                changes = step.changes(item)
            except ValueError:
                changes = ()
            yield Asked((step.field, *_parts(at)), item, changes)


def doubled(root: Node, policy: Policy) -> Iterator[Fault]:
    """The features of a valid policy that no pod can have beside others for the same roles."""
    wishes = [wish for wish in grammar.read(policy.spec.sparkConf) if isinstance(wish, grammar.Wish)]
    for name in BLOCKS:
        taken: dict[Hashable, list[tuple[Path, Any, Hashable]]] = {}
        asked = [
            feature._replace(path=(name, *feature.path)) for feature in features(getattr(policy.spec, name))
        ]
        for wish in wishes:
            if (wish.role or BLOCKS[0]) == name:
                path = ("sparkConf", grammar.first_key(wish.key, policy.spec.sparkConf))
                asked += [feature._replace(path=path) for feature in features(wish.block)]
        for feature in asked:
            met = _met(feature, taken)
            if met is not None:
                place, first = met
                there = messages.fault(root, ("spec", *first), "")
                where = positions.show(there.path) + (f" on line {there.line}" if there.line else "")
                message = f"wants another {_shown(place)} than {where}: remove one of them"
                at_key = feature.path[0] == "sparkConf"
                yield messages.fault(root, ("spec", *feature.path), message, at_key=at_key)


def _met(
    feature: Asked, taken: dict[Hashable, list[tuple[Path, Any, Hashable]]]
) -> tuple[Hashable, Path] | None:
    """The first place of a feature for which one before it has another wish; its places are taken then."""
    found: tuple[Hashable, Path] | None = None
    for change in feature.changes:
        for place, containers, wish in change.described():
            mine, others = listed(containers), taken.setdefault(place, [])
            for path, theirs, other in others:
                if found is None and other != wish and path != feature.path and overlap(mine, theirs):
                    found = place, path
            others.append((feature.path, mine, wish))
    return found


def _parts(at: str) -> Iterator[str | int]:
    """The parts of a step's word for an item's place: `[2]`, `.region`, `.spec.volumes[0]`, `[a.b/c]`."""
    for key, name in _PART.findall(at):
        yield name or (int(key) if key.isdecimal() else key)


def _shown(place: Hashable) -> str:
    """The words of a place: `env AWS_ROLE_ARN`, `ports 8090 TCP`."""
    parts = [part for part in _flat(place) if part not in ("", "spec", "container")]
    return " ".join(map(str, parts))


def _flat(place: Hashable) -> Iterator[str | int]:
    if isinstance(place, tuple):
        for part in place:
            yield from _flat(part)
    elif isinstance(place, str | int):
        yield place
