"""hadoop: a ConfigMap of Hadoop configuration, where Spark's HadoopConf*FeatureStep puts it.

Same volume name, path and variable as Spark's, for drivers and executors (which Spark gives it from 3.5 on
only). Where Spark was configured with its own, Spark's stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from webhook import spark
from webhook.changes import Change, EnsureItem
from webhook.kinds import ENV, MOUNTS, VOLUMES, Json
from webhook.policy.items import HadoopItem
from webhook.reasons import Reason
from webhook.steps.base import Step, one


def changes(item: HadoopItem) -> Sequence[Change]:
    """The config map's volume, its mount and HADOOP_CONF_DIR."""
    volume: Json = {"name": spark.HADOOP_VOLUME, "configMap": {"name": item.configMap}}
    mount: Json = {"name": spark.HADOOP_VOLUME, "mountPath": spark.HADOOP_PATH}
    variable: Json = {"name": spark.HADOOP_ENV, "value": spark.HADOOP_PATH}
    return [
        EnsureItem(ENV, variable, item.containers, Reason.SPARK_CONFIGURED),
        EnsureItem(VOLUMES, volume, owned_reason=Reason.SPARK_CONFIGURED),
        EnsureItem(MOUNTS, mount, item.containers, Reason.SPARK_CONFIGURED),
    ]


STEP = Step(
    field="hadoop",
    changes=changes,
    identity=lambda _item: "hadoop",
    subject=lambda item: f"hadoop configMap {item.configMap}",
    items=one,
)
