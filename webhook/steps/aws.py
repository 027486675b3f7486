"""aws: an identity at AWS, as the EKS pod identity webhook sets it up (IRSA, or EKS Pod Identity).

https://docs.aws.amazon.com/eks/latest/userguide/pod-configuration.html and .../pod-id-how-it-works.html. What
that webhook did itself is the same thing, so both may be installed. The region is a feature of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import ENV
from webhook.policy.cloud_identities import AwsItem
from webhook.steps.base import Step, projected_token

_STS_PATH = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
_EKS_PATH = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
_EKS_TOKEN = "eks-pod-identity-token"


def changes(item: AwsItem) -> Sequence[Change]:
    """The token's volume, its mount and the variables; or the region's variables."""
    if item.roleArn is not None:
        audience = item.audience or "sts.amazonaws.com"
        token = projected_token("aws-iam-token", audience, "token", item, _STS_PATH)
        variables = {
            "AWS_ROLE_ARN": item.roleArn,
            "AWS_WEB_IDENTITY_TOKEN_FILE": f"{_STS_PATH}/token",
            **({"AWS_STS_REGIONAL_ENDPOINTS": "regional"} if item.regionalSts else {}),
        }
    elif item.podIdentity:
        token = projected_token(_EKS_TOKEN, "pods.eks.amazonaws.com", _EKS_TOKEN, item, _EKS_PATH)
        variables = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": f"{_EKS_PATH}/{_EKS_TOKEN}",
        }
    else:
        token, variables = [], dict.fromkeys(("AWS_REGION", "AWS_DEFAULT_REGION"), item.region or "")
    env = [
        EnsureItem(ENV, {"name": name, "value": value}, item.containers) for name, value in variables.items()
    ]
    return [*token, *env]


def _items(value: AwsItem | None) -> Iterable[tuple[str, AwsItem]]:
    if value is None:
        return
    stated = {key: getattr(value, key) for key in value.model_fields_set}
    region = stated.pop("region", None)
    if value.roleArn is not None or value.podIdentity:
        yield "", AwsItem.model_construct(set(stated), **stated)
    if region is not None:
        shared = {key: stated[key] for key in ("onConflict", "containers") if key in stated}
        yield ".region", AwsItem.model_construct({*shared, "region"}, **shared, region=region)


STEP = Step(
    field="aws",
    changes=changes,
    identity=lambda item: "region" if item.region is not None else "identity",
    subject=lambda item: "aws region" if item.region is not None else "aws identity",
    items=_items,
)
