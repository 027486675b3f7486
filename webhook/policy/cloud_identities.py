"""The identities of pods at cloud providers: AWS, Azure, Google Cloud. Names and paths are the providers'
own.

Each identity is one feature: applied whole or not at all. It must never hold a credential: only names of
identities, and of Secrets and keys in them.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from webhook.policy.identities import ConfigKey
from webhook.policy.items import ContainerItem, Model, MountPath, cel
from webhook.policy.values import DnsSubdomain, Text, fault

_ONE_OF_AWS = "needs one of roleArn and podIdentity: true, or a region alone"
_ROLE_ONLY = "only goes with roleArn"
_ONE_OF_GCP = "needs either keySecret or workloadIdentityProvider"
_KEY_ONLY = "only goes with keySecret"
_PROVIDER_ONLY = "only goes with workloadIdentityProvider"

Name = Annotated[Text, Field(min_length=1)]


class AwsItem(ContainerItem):
    """An identity at AWS: a role (IRSA), or the one that EKS Pod Identity knows for the service account."""

    model_config = cel(
        (
            "(has(self.roleArn) ? 1 : 0) + (has(self.podIdentity) && self.podIdentity ? 1 : 0)"
            " == 1 || (has(self.region) && !has(self.roleArn) && !has(self.podIdentity))",
            _ONE_OF_AWS,
            "",
        ),
        ("!has(self.audience) || has(self.roleArn)", _ROLE_ONLY, "audience"),
    )

    roleArn: Name | None = Field(
        default=None,
        description="The IAM role that the pod takes on by its service account's token (IRSA).",
        examples=["arn:aws:iam::111122223333:role/lake-reader"],
    )
    podIdentity: bool = Field(
        default=False,
        description="Use EKS Pod Identity: the role is associated with the service account in EKS.",
        examples=[True],
    )
    region: Name | None = Field(
        default=None,
        description="AWS_REGION and AWS_DEFAULT_REGION; a feature of its own.",
        examples=["eu-central-1"],
    )
    audience: Name | None = Field(
        default=None,
        description="For whom the token is; by default sts.amazonaws.com.",
        examples=["sts.amazonaws.com"],
    )
    regionalSts: bool = Field(
        default=False,
        description="Ask the region's own token service (AWS_STS_REGIONAL_ENDPOINTS=regional).",
        examples=[True],
    )
    tokenExpirationSeconds: Annotated[int, Field(ge=600, le=2**32)] = Field(
        default=86400, description="For how long the token is valid; it is renewed in time.", examples=[3600]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        region_alone = self.region is not None and self.roleArn is None and not self.podIdentity
        if (self.roleArn is not None) == self.podIdentity and not region_alone:
            raise fault(_ONE_OF_AWS)
        if self.audience is not None and self.podIdentity:
            raise fault(_ROLE_ONLY, "audience")
        return self


class AzureItem(ContainerItem):
    """An identity at Azure (Microsoft Entra Workload ID)."""

    clientId: Name = Field(
        description="The application's or managed identity's client id.",
        examples=["00000000-0000-0000-0000-000000000001"],
    )
    tenantId: Name = Field(description="The tenant's id.", examples=["00000000-0000-0000-0000-000000000002"])
    authorityHost: Name = Field(
        default="https://login.microsoftonline.com/",
        description="Where tokens are exchanged; another one in sovereign clouds.",
        examples=["https://login.microsoftonline.us/"],
    )
    tokenExpirationSeconds: Annotated[int, Field(ge=3600, le=86400)] = Field(
        default=3600, description="For how long the token is valid; it is renewed in time.", examples=[7200]
    )


class GcpItem(ContainerItem):
    """An identity at Google Cloud: a service account's key file, or workload identity federation."""

    model_config = cel(
        ("has(self.keySecret) != has(self.workloadIdentityProvider)", _ONE_OF_GCP, ""),
        ("!has(self.key) || has(self.keySecret)", _KEY_ONLY, "key"),
        ("!has(self.mountPath) || has(self.keySecret)", _KEY_ONLY, "mountPath"),
        ("!has(self.audience) || has(self.workloadIdentityProvider)", _PROVIDER_ONLY, "audience"),
        (
            "!has(self.serviceAccountEmail) || has(self.workloadIdentityProvider)",
            _PROVIDER_ONLY,
            "serviceAccountEmail",
        ),
    )

    keySecret: DnsSubdomain | None = Field(
        default=None, description="A Secret with a service account's key file.", examples=["gcs-key"]
    )
    key: ConfigKey | None = Field(
        default=None, description="The key of keySecret; by default key.json.", examples=["key.json"]
    )
    mountPath: MountPath | None = Field(
        default=None,
        description="Where keySecret is mounted; by default /mnt/secrets/gcp.",
        examples=["/mnt/secrets/gcp"],
    )
    workloadIdentityProvider: Name | None = Field(
        default=None,
        description=(
            "The provider of workload identity federation that knows the cluster. The configuration of the "
            "client libraries becomes an annotation of the pod and a file of it: no init container."
        ),
        examples=["projects/123/locations/global/workloadIdentityPools/pool/providers/cluster"],
    )
    serviceAccountEmail: Name | None = Field(
        default=None,
        description="The service account that is impersonated; none: the federated identity itself.",
        examples=["lake@project.iam.gserviceaccount.com"],
    )
    audience: Name | None = Field(
        default=None,
        description="For whom the token is; by default sts.googleapis.com.",
        examples=["sts.googleapis.com"],
    )
    tokenExpirationSeconds: Annotated[int, Field(ge=600, le=2**32)] = Field(
        default=86400, description="For how long the token is valid; it is renewed in time.", examples=[3600]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.keySecret is None) == (self.workloadIdentityProvider is None):
            raise fault(_ONE_OF_GCP)
        for field in ("key", "mountPath") if self.keySecret is None else ("serviceAccountEmail", "audience"):
            if getattr(self, field) is not None:
                raise fault(_KEY_ONLY if self.keySecret is None else _PROVIDER_ONLY, field)
        return self


class CloudFields(Model):
    """Who a pod is at a cloud provider."""

    aws: AwsItem | None = Field(
        default=None,
        description=(
            "An identity at AWS, as the EKS pod identity webhook sets it up: a projected token, its mount "
            "and "
            "the variables that AWS' libraries read."
        ),
        examples=[{"roleArn": "arn:aws:iam::111122223333:role/lake-reader", "region": "eu-central-1"}],
    )
    azure: AzureItem | None = Field(
        default=None,
        description=(
            "An identity at Azure, as its workload identity webhook sets it up: a projected token, its mount "
            "and the variables that Azure's libraries read."
        ),
        examples=[
            {
                "clientId": "00000000-0000-0000-0000-000000000001",
                "tenantId": "00000000-0000-0000-0000-000000000002",
            }
        ],
    )
    gcp: GcpItem | None = Field(
        default=None,
        description=(
            "An identity at Google Cloud: GOOGLE_APPLICATION_CREDENTIALS and what it points to. On GKE "
            "with its "
            "own workload identity nothing is needed in the pod."
        ),
        examples=[{"keySecret": "gcs-key"}],
    )
