"""The fields of a policy about Spark itself: its scratch space, agents in its JVMs, its properties.

It must never know how a feature is applied.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from webhook.defaults import quantity
from webhook.policy import placeholders, shape_rules, shapes, values
from webhook.policy.items import MAX_INNER, MAX_ITEMS, ContainerItem, Item, Model, MountPath, cel, item_list
from webhook.policy.shapes import OPAQUE, FieldOf, Shape
from webhook.policy.values import DnsSubdomain, FixedDnsLabel, Text, fault

_SOURCES = ("emptyDir", "hostPath", "ephemeral", "onDemand")


class OnDemandClaim(Model):
    """A claim for each volume, made and deleted with the pod."""

    size: Annotated[str, values.rule(values.quantity)] = Field(
        description="How much is asked for.", examples=["100Gi"]
    )
    storageClass: DnsSubdomain | None = Field(
        default=None, description="The StorageClass; the cluster's default one if absent.", examples=["fast"]
    )
    accessModes: Annotated[list[str], FieldOf("PersistentVolumeClaimSpec", "accessModes")] = Field(
        default=["ReadWriteOnce"],
        min_length=1,
        max_length=4,
        description="The claim's access modes.",
        examples=[["ReadWriteOncePod"]],
    )

    def spec(self) -> dict[str, Any]:
        """The claim's spec, as Kubernetes has it."""
        found: dict[str, Any] = {
            "accessModes": self.accessModes,
            "resources": {"requests": {"storage": self.size}},
        }
        return found if self.storageClass is None else {**found, "storageClassName": self.storageClass}

    @model_validator(mode="after")
    def _as_kubernetes_has_it(self) -> Self:
        if quantity(self.size) == 0:
            raise fault("must be greater than 0", "size")
        shape_rules.CHECKS["PersistentVolumeClaimSpec"]({"accessModes": self.accessModes})
        return self


class LocalDirsItem(Item):
    """What Spark's scratch space is on: exactly one source."""

    model_config = cel(
        (shapes.exactly_one(_SOURCES)["rule"], shapes.exactly_one(_SOURCES)["message"], ""),
    )

    emptyDir: Annotated[dict[str, Any], Shape("EmptyDirVolumeSource")] | None = Field(
        default=None,
        description="The node's disk, or with medium: Memory its memory, which counts as the pod's own.",
        examples=[{"sizeLimit": "50Gi"}],
    )
    hostPath: Annotated[dict[str, Any], Shape("HostPathVolumeSource")] | None = Field(
        default=None, description="A directory of the node.", examples=[{"path": "/mnt/nvme0"}]
    )
    ephemeral: Annotated[dict[str, Any], Shape("EphemeralVolumeSource")] | None = Field(
        default=None,
        json_schema_extra={OPAQUE: True},  # the same object as in volumes
        description="A generic ephemeral volume: a claim for each volume, which lives as long as the pod.",
        examples=[
            {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "100Gi"}},
                    }
                }
            }
        ],
    )
    onDemand: OnDemandClaim | None = Field(
        default=None,
        description="The same in short, as Spark's own claimName OnDemand.",
        examples=[{"size": "100Gi", "storageClass": "fast"}],
    )
    paths: list[MountPath] = Field(
        default=[],
        max_length=MAX_INNER,
        description=(
            "Directories to add to Spark's, each on a volume of its own. Without any, the volumes that "
            "Spark has "
            "made for its own directories get the source."
        ),
        examples=[["/scratch"]],
    )

    def source(self) -> dict[str, Any]:
        """The volume source, as a volume has it."""
        if self.onDemand is None:
            return {name: value for name in _SOURCES if (value := getattr(self, name)) is not None}
        return {"ephemeral": {"volumeClaimTemplate": {"spec": self.onDemand.spec()}}}

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        found = [name for name in _SOURCES if getattr(self, name) is not None]
        if len(found) != 1:
            raise fault(f"needs exactly one of {', '.join(_SOURCES)}", *found[1:2])
        if len(set(self.paths)) < len(self.paths):
            raise fault("a path stands twice: remove one", "paths")
        return self


def _without_spaces(*texts: str) -> None:
    """Fail if a part of JAVA_TOOL_OPTIONS would be read as several; the JVM would not start."""
    if any(char.isspace() for text in texts for char in text if not placeholders.present(text)):
        raise fault("JAVA_TOOL_OPTIONS can't hold a space inside of an option: use a configuration file")


class JavaAgentItem(ContainerItem):
    """A Java agent in Spark's JVM, or in those of other containers."""

    name: FixedDnsLabel = Field(description="What it is called in messages; unique.", examples=["otel"])
    jar: MountPath = Field(
        description="The agent's jar in the container: in the image, or on a volume of the policy.",
        examples=["/opt/agents/otel.jar"],
    )
    options: Text = Field(
        default="", description="What the agent is given (-javaagent:jar=options).", examples=["debug=false"]
    )
    properties: dict[str, Text] = Field(
        default={},
        max_length=MAX_INNER,
        description="Java system properties (-Dkey=value) for it.",
        examples=[{"otel.service.name": "{{APP_NAME|spark}}"}],
    )
    configMap: DnsSubdomain | None = Field(
        default=None,
        description="A ConfigMap with its configuration, mounted at configPath.",
        examples=["otel"],
    )
    configPath: MountPath | None = Field(
        default=None, description="Where configMap is mounted.", examples=["/etc/otel"]
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.configMap is None) != (self.configPath is None):
            raise fault("configMap and configPath only go together: state both, or none")
        _without_spaces(self.jar, self.options, *self.properties, *self.properties.values())
        return self


class MonitoringItem(ContainerItem):
    """Prometheus' JMX exporter in Spark's JVM, and what a Prometheus needs to find it."""

    jar: MountPath = Field(
        description="The exporter's jar in the image, or on a volume of the policy.",
        examples=["/prometheus/jmx_prometheus_javaagent.jar"],
    )
    port: Annotated[int, FieldOf("ContainerPort", "containerPort")] = Field(
        default=8090, description="Where it serves metrics.", examples=[9404]
    )
    portName: Annotated[str, values.rule(values.port_name)] = Field(
        default="jmx-exporter", description="The name of the container's port.", examples=["metrics"]
    )
    configMap: DnsSubdomain | None = Field(
        default=None,
        description="A ConfigMap with the key prometheus.yaml, mounted at /etc/metrics/conf.",
        examples=["spark-metrics"],
    )
    configFile: MountPath | None = Field(
        default=None,
        description="The exporter's configuration in the image instead.",
        examples=["/prometheus/config.yaml"],
    )
    scrape: bool = Field(
        default=True,
        description="Set the annotations prometheus.io/scrape, port and path; a feature of its own.",
        examples=[False],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.configMap is None) == (self.configFile is None):
            raise fault("needs exactly one of configMap and configFile")
        _without_spaces(self.jar, self.configFile or "")
        return self


class SparkFields(Model):
    """What Spark itself is given."""

    localDirs: LocalDirsItem | None = Field(
        default=None,
        description=(
            "Spark's scratch space (shuffle and spill files). SPARK_LOCAL_DIRS stays right. Volumes that the "
            "author has chosen are the author's; the plain emptyDir that Spark makes by default is "
            "nobody's wish."
        ),
        examples=[{"onDemand": {"size": "100Gi", "storageClass": "fast"}}],
    )
    javaAgents: list[JavaAgentItem] = item_list(
        description=(
            "Java agents, set in JAVA_TOOL_OPTIONS, to which they are joined: the options that the author or "
            "Spark has set stay. Every JVM in the container reads it, also one that is started beside "
            "Spark's."
        ),
        examples=[[{"name": "otel", "jar": "/opt/agents/otel.jar"}]],
    )
    monitoring: MonitoringItem | None = Field(
        default=None,
        description="Metrics for Prometheus by its JMX exporter: agent, configuration, port, annotations.",
        examples=[{"jar": "/prometheus/jmx_prometheus_javaagent.jar", "configMap": "spark-metrics"}],
    )
    sparkConf: dict[Annotated[str, values.literal(values.spark_property)], Text] = Field(
        default={},
        max_length=MAX_ITEMS,
        description=(
            "Spark properties of the driver, set through its container's arguments; only in the block "
            "driver. "
            "They go before the author's properties file, which the webhook does not see; a --conf among the "
            "arguments is the author's."
        ),
        examples=[{"spark.sql.shuffle.partitions": "400"}],
    )
