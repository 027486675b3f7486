"""What an admission needs to know of a namespace. It must never ask anybody: who knows more builds one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

NAME_LABEL = "kubernetes.io/metadata.name"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's name, labels and annotations.

    `labels` always holds `kubernetes.io/metadata.name`, as every namespace of a cluster does
    (https://kubernetes.io/docs/reference/labels-annotations-taints/#kubernetes-io-metadata-name).
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", {**self.labels, NAME_LABEL: self.name})
