"""gcp: an identity at Google Cloud: a key file, or workload identity federation without an init container.

The federation's configuration (https://google.aip.dev/auth/4117) holds no secret: it is an annotation of
the pod, which a downward API volume makes a file of. So nothing has to be created beside the pod.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Sequence

from webhook.changes import Change, EnsureItem, EnsureKey
from webhook.kinds import ENV, MOUNTS, VOLUMES, Json
from webhook.policy.cloud_identities import GcpItem
from webhook.steps.base import Step, one, projected_token, volume_name

_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_KEY_PATH, _KEY = "/mnt/secrets/gcp", "key.json"
_TOKEN_PATH = "/var/run/secrets/sts.googleapis.com/serviceaccount"
_CONFIG_PATH, _CONFIG_FILE = "/var/run/secrets/gcloud/config", "federation.json"
_CONFIG_ANNOTATION = "cloud.google.com/external-credentials-json"
_READABLE = 0o444


def changes(item: GcpItem) -> Sequence[Change]:
    """What GOOGLE_APPLICATION_CREDENTIALS points to, and the variable."""
    if item.keySecret is not None:
        file = posixpath.join(item.mountPath or _KEY_PATH, item.key or _KEY)
        volume: Json = {
            "name": volume_name(item.keySecret, "volume", {}),
            "secret": {"secretName": item.keySecret},
        }
        mount: Json = {"name": volume["name"], "mountPath": item.mountPath or _KEY_PATH, "readOnly": True}
        needed: list[Change] = [EnsureItem(VOLUMES, volume), EnsureItem(MOUNTS, mount, item.containers)]
    else:
        file = f"{_CONFIG_PATH}/{_CONFIG_FILE}"
        needed = _federation(item)
    return [*needed, EnsureItem(ENV, {"name": _VARIABLE, "value": file}, item.containers)]


def _federation(item: GcpItem) -> list[Change]:
    config: Json = {
        "type": "external_account",
        "audience": f"//iam.googleapis.com/{item.workloadIdentityProvider}",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": f"{_TOKEN_PATH}/token", "format": {"type": "text"}},
    }
    if item.serviceAccountEmail is not None:
        config["service_account_impersonation_url"] = (
            "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
            f"{item.serviceAccountEmail}:generateAccessToken"
        )
    reference = {"fieldPath": f"metadata.annotations['{_CONFIG_ANNOTATION}']"}
    volume: Json = {
        "name": "external-credential-config",
        "downwardAPI": {
            "defaultMode": _READABLE,
            "items": [{"path": _CONFIG_FILE, "fieldRef": reference}],
        },
    }
    mount: Json = {"name": volume["name"], "mountPath": _CONFIG_PATH, "readOnly": True}
    audience = item.audience or "sts.googleapis.com"
    return [
        EnsureKey("annotations", _CONFIG_ANNOTATION, json.dumps(config, sort_keys=True)),
        *projected_token("gcp-iam-token", audience, "token", item, _TOKEN_PATH),
        EnsureItem(VOLUMES, volume),
        EnsureItem(MOUNTS, mount, item.containers),
    ]


STEP = Step(
    field="gcp",
    changes=changes,
    identity=lambda _item: "gcp",
    subject=lambda _item: "gcp identity",
    items=one,
)
