"""The fields of a policy that are about a pod as a whole: its account, network, processes and security.

Kubernetes' own shapes. It must never know how a feature is applied.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from webhook.policy.items import MAX_INNER, Model
from webhook.policy.shapes import FieldOf, Shape


class PodFields(Model):
    """What a pod as a whole is given."""

    serviceAccountName: Annotated[str, FieldOf("PodSpec", "serviceAccountName")] | None = Field(
        default=None,
        description=(
            "The ServiceAccount of the pod. It must exist in the pod's namespace, or the pod is refused. "
            "A namespaced policy may not set it unless the server allows it."
        ),
        examples=["spark"],
    )
    podSecurityContext: Annotated[dict[str, Any], Shape("PodSecurityContext")] | None = Field(
        default=None,
        description=(
            "A Kubernetes PodSecurityContext, merged key by key; supplementalGroups and sysctls join."
        ),
        examples=[{"fsGroup": 185, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}],
    )
    hostNetwork: Annotated[bool, FieldOf("PodSpec", "hostNetwork")] | None = Field(
        default=None,
        description=(
            "The pod uses its node's network. Usually together with dnsPolicy: ClusterFirstWithHostNet. A "
            "namespaced policy may not set it unless the server allows it."
        ),
        examples=[True],
    )
    dnsPolicy: Annotated[str, FieldOf("PodSpec", "dnsPolicy")] | None = Field(
        default=None,
        description="How the pod resolves names. None needs nameservers in dnsConfig.",
        examples=["ClusterFirstWithHostNet"],
    )
    dnsConfig: Annotated[dict[str, Any], Shape("PodDNSConfig")] | None = Field(
        default=None,
        description="A Kubernetes PodDNSConfig: nameservers, searches and options are added to the author's.",
        examples=[{"searches": ["lake.example.com"], "options": [{"name": "ndots", "value": "2"}]}],
    )
    hostAliases: list[Annotated[dict[str, Any], Shape("HostAlias")]] = Field(
        default=[],
        max_length=MAX_INNER,
        description="Lines of /etc/hosts; host names of one ip address join.",
        examples=[[{"ip": "10.1.2.3", "hostnames": ["namenode.example.com"]}]],
    )
    shareProcessNamespace: Annotated[bool, FieldOf("PodSpec", "shareProcessNamespace")] | None = Field(
        default=None, description="The containers of the pod see each other's processes.", examples=[True]
    )
