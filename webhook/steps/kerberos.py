"""kerberos: krb5.conf, a keytab and delegation tokens, where Spark's KerberosConfDriverFeatureStep puts them.

Same volume names, paths and variable as Spark's, for drivers and for executors (to which Spark itself gives
none of this). Where Spark was configured with its own, Spark's stays. It must never read a Secret.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from webhook import spark
from webhook.changes import Change, EnsureItem
from webhook.kinds import ENV, MOUNTS, VOLUMES, Json
from webhook.policy.identities import KerberosItem
from webhook.reasons import Reason
from webhook.steps.base import Step, one

_TOKEN_ITEM_KEY = "hadoop-tokens"


def changes(item: KerberosItem) -> Sequence[Change]:
    """The volumes of what is stated, their mounts, and the variable of the tokens."""
    wanted: list[Change] = []

    def mounted(volume: Json, mount: Json) -> None:
        wanted.append(EnsureItem(VOLUMES, volume, owned_reason=Reason.SPARK_CONFIGURED))
        mount = {"name": volume["name"], **mount}
        wanted.append(EnsureItem(MOUNTS, mount, item.containers, Reason.SPARK_CONFIGURED))

    if item.krb5ConfigMap is not None:
        volume: Json = {"name": spark.KRB5_VOLUME, "configMap": {"name": item.krb5ConfigMap}}
        mounted(volume, {"mountPath": spark.KRB5_PATH, "subPath": posixpath.basename(spark.KRB5_PATH)})
    if item.keytabSecret is not None:
        volume = {"name": spark.KEYTAB_VOLUME, "secret": {"secretName": item.keytabSecret}}
        mounted(volume, {"mountPath": spark.KEYTAB_PATH})
    if item.tokenSecret is not None:
        volume = {"name": spark.TOKENS_VOLUME, "secret": {"secretName": item.tokenSecret}}
        mounted(volume, {"mountPath": spark.TOKENS_PATH})
        file = posixpath.join(spark.TOKENS_PATH, item.tokenItemKey or _TOKEN_ITEM_KEY)
        variable = {"name": spark.TOKEN_ENV, "value": file}
        wanted.append(EnsureItem(ENV, variable, item.containers, Reason.SPARK_CONFIGURED))
    return wanted


def _subject(item: KerberosItem) -> str:
    names = [name for name in (item.krb5ConfigMap, item.keytabSecret, item.tokenSecret) if name is not None]
    return f"kerberos {', '.join(names)}"


STEP = Step(field="kerberos", changes=changes, identity=lambda _item: "kerberos", subject=_subject, items=one)
