"""Things in a policy that are legal but risky: what a careful reviewer would ask about.

It sees checked policies only, and must never show a value of a variable or annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from webhook.policy.model import Policy
from webhook.policy.positions import Path


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about the part of a policy document that the path leads to."""

    path: Path
    message: str


def of(policy: Policy) -> Iterator[Note]:
    """The notes on one policy by itself."""
    return iter(())


def across(policies: Sequence[Policy]) -> Iterator[tuple[int, Note]]:
    """The notes on policies that meet each other, each with the index of the policy it is about."""
    return iter(())
