"""RoleBlock: the features for one role or for both, one field per feature step.

Fields of one theme stand together in a class of their module; adding a field touches that class alone.
It must never know how a feature is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from webhook.policy import ownership, values
from webhook.policy.cloud_identities import CloudFields
from webhook.policy.containers import ContainerFields
from webhook.policy.identities import IdentityFields
from webhook.policy.items import (
    MAX_ITEMS,
    ConfigMapItem,
    EnvFromItem,
    EnvItem,
    HadoopItem,
    ImagePullSecretItem,
    Model,
    SecretItem,
    VolumeItem,
    item_list,
)
from webhook.policy.pod_fields import PodFields
from webhook.policy.scheduling import SchedulingFields
from webhook.policy.spark_fields import SparkFields
from webhook.policy.template import TemplateFields
from webhook.policy.values import LabelValue, Text


class BasicFields(Model):
    """Files, variables, and what is written on the pod."""

    secrets: list[SecretItem] = item_list(
        description=(
            "Secrets mounted as files, read-only unless stated otherwise (Spark's MountSecretsFeatureStep)."
        ),
        examples=[[{"name": "lake-credentials", "mountPath": "/etc/secrets/lake"}]],
    )
    configMaps: list[ConfigMapItem] = item_list(
        description="ConfigMaps mounted as files, read-only unless stated otherwise.",
        examples=[[{"name": "hive-site", "mountPath": "/etc/hive"}]],
    )
    volumes: list[VolumeItem] = item_list(
        key="name",
        description=(
            "Kubernetes Volumes of any type, and where containers mount them: volume and mounts are "
            "one feature."
        ),
        examples=[[{"name": "cache", "emptyDir": {"sizeLimit": "5Gi"}, "mounts": [{"mountPath": "/cache"}]}]],
    )
    env: list[EnvItem] = item_list(
        description="Environment variables; one goes before those that refer to it by $(NAME).",
        examples=[[{"name": "PYTHONPATH", "value": "/opt/libs", "join": ":"}]],
    )
    envFrom: list[EnvFromItem] = item_list(
        description="All keys of ConfigMaps or Secrets as environment variables.",
        examples=[[{"configMapRef": {"name": "common-env"}}]],
    )
    hadoop: HadoopItem | None = Field(
        default=None,
        description="Hadoop's configuration where Spark itself would mount it, with HADOOP_CONF_DIR.",
        examples=[{"configMap": "hadoop-conf"}],
    )
    labels: dict[Annotated[str, values.literal(values.label_key), ownership.free_label], LabelValue] = Field(
        default={},
        max_length=MAX_ITEMS,
        description="Labels of the pod, each a feature of its own. Spark's own can't be asked for.",
        examples=[{"team": "lake"}],
    )
    annotations: dict[
        Annotated[str, values.literal(values.annotation_key), ownership.free_annotation], Text
    ] = Field(
        default={},
        max_length=MAX_ITEMS,
        description="Annotations of the pod, each a feature of its own.",
        examples=[{"sidecar.istio.io/inject": "false"}],
    )
    imagePullSecrets: list[ImagePullSecretItem] = item_list(
        key="name",
        description="Secrets with the credentials of registries, added to the author's.",
        examples=[[{"name": "company-registry"}]],
    )


class RoleBlock(
    TemplateFields,
    ContainerFields,
    PodFields,
    SchedulingFields,
    CloudFields,
    IdentityFields,
    SparkFields,
    BasicFields,
):
    """The features for one role, or for both; one field per feature step."""

    def written_labels(self) -> Iterator[tuple[str, str]]:
        """Every label that a pod may get, with the value as it is written."""
        yield from self.labels.items()
        if self.podTemplate is not None and self.podTemplate.metadata is not None:
            yield from self.podTemplate.metadata.get("labels", {}).items()
