"""kubernetesCredentials: with what a driver shows itself to the API server, from a Secret.

Same volume, path and file names as Spark's DriverKubernetesCredentialsFeatureStep. Where Spark was configured
with its own, Spark's stays. The service account stays what it is. It must never read a Secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook import spark
from webhook.changes import Change, EnsureItem
from webhook.kinds import MOUNTS, VOLUMES, Json
from webhook.policy.identities import KubernetesCredentialsItem
from webhook.reasons import Reason
from webhook.steps.base import Step, one


def changes(item: KubernetesCredentialsItem) -> Sequence[Change]:
    """The secret's volume and its mount."""
    keys = {
        "ca-cert": item.caCert,
        "client-key": item.clientKey,
        "client-cert": item.clientCert,
        "oauth-token": item.oauthToken,
    }
    source: Json = {"secretName": item.secret}
    items = [{"key": key, "path": file} for file, key in keys.items() if key is not None]
    if items:
        source["items"] = items
    volume: Json = {"name": spark.CREDENTIALS_VOLUME, "secret": source}
    mount: Json = {"name": spark.CREDENTIALS_VOLUME, "mountPath": spark.CREDENTIALS_PATH}
    return [
        EnsureItem(VOLUMES, volume, owned_reason=Reason.SPARK_CONFIGURED),
        EnsureItem(MOUNTS, mount, item.containers, Reason.SPARK_CONFIGURED),
    ]


STEP = Step(
    field="kubernetesCredentials",
    changes=changes,
    identity=lambda _item: "kubernetesCredentials",
    subject=lambda item: f"kubernetesCredentials secret {item.secret}",
    items=one,
)
