"""azure: an identity at Azure, as its workload identity webhook sets it up.

https://azure.github.io/azure-workload-identity/docs/topics/service-account-labels-and-annotations.html
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook.changes import Change, EnsureItem
from webhook.kinds import ENV
from webhook.policy.cloud_identities import AzureItem
from webhook.steps.base import Step, one, projected_token

_PATH, _TOKEN = "/var/run/secrets/azure/tokens", "azure-identity-token"
_AUDIENCE = "api://AzureADTokenExchange"


def changes(item: AzureItem) -> Sequence[Change]:
    """The token's volume, its mount and the variables."""
    variables = {
        "AZURE_CLIENT_ID": item.clientId,
        "AZURE_TENANT_ID": item.tenantId,
        "AZURE_FEDERATED_TOKEN_FILE": f"{_PATH}/{_TOKEN}",
        "AZURE_AUTHORITY_HOST": item.authorityHost,
    }
    return [
        *projected_token(_TOKEN, _AUDIENCE, _TOKEN, item, _PATH),
        *(
            EnsureItem(ENV, {"name": name, "value": value}, item.containers)
            for name, value in variables.items()
        ),
    ]


STEP = Step(
    field="azure",
    changes=changes,
    identity=lambda _item: "azure",
    subject=lambda _item: "azure identity",
    items=one,
)
