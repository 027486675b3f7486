"""sparkConf: Spark properties of the driver, set through its container's arguments (JVM, Python and R
alike)."""

from __future__ import annotations

from webhook.spark_arguments import SetSparkProperty
from webhook.steps.base import Step, entries

STEP = Step(
    field="sparkConf",
    changes=lambda item: [SetSparkProperty(item.key, item.value)],
    identity=lambda item: item.key,
    subject=lambda item: f"sparkConf {item.key}",
    items=entries,
)
