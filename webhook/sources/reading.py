"""What a source of policies hands over."""

from __future__ import annotations

from dataclasses import dataclass

from webhook.policy.policy_set import PolicySet


@dataclass(frozen=True, slots=True)
class Reading:
    """What there is now.

    Attributes:
        policies: the set to put in force; None: what is in force stays, since the problems forbid another
        problems: what is wrong, a line each; beside a set, about the policies that are not in it
        left_out: how many policies are not in the set
    """

    policies: PolicySet | None
    problems: tuple[str, ...]
    left_out: int = 0
