"""What Kubernetes checks of a pod's fields beyond their types, as far as an object by itself can show it.

Tables by `Shape.field` (a list's rule is that of its items, `Shape.field.*` of a map's values, `Shape.field.`
of its keys), read by webhook.policy.shapes. It must never refuse what an API server accepts: a rule that
depends on the cluster's version or features stays out. No message repeats a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.defaults import quantity
from webhook.policy import values
from webhook.policy.values import INT32_MAX, fault

Json = dict[str, Any]
Check = Callable[[Json], None]

_SUBDOMAIN_NAMES = (
    *("SecretKeySelector.name", "ConfigMapKeySelector.name", "SecretEnvSource.name"),
    *("ConfigMapEnvSource.name", "SecretProjection.name", "ConfigMapProjection.name"),
    *("SecretVolumeSource.secretName", "ConfigMapVolumeSource.name", "LocalObjectReference.name"),
    *("PersistentVolumeClaimVolumeSource.claimName", "PodSpec.nodeName", "PodSpec.priorityClassName"),
    *("PodSpec.runtimeClassName", "PodSpec.schedulerName", "PodSpec.serviceAccount"),
    *("PodSpec.serviceAccountName", "PodResourceClaim.resourceClaimName"),
    *("PodResourceClaim.resourceClaimTemplateName", "HostAlias.hostnames"),
)
_LABEL_NAMES = (
    *("VolumeMount.name", "VolumeDevice.name", "Volume.name", "PodSpec.hostname", "PodSpec.subdomain"),
    *("PodResourceClaim.name", "ResourceClaim.name", "PodAffinityTerm.namespaces"),
)
_LABEL_KEYS = (
    *("NodeSelectorRequirement.key", "LabelSelectorRequirement.key", "PodAffinityTerm.topologyKey"),
    *("TopologySpreadConstraint.topologyKey", "PodReadinessGate.conditionType", "PodSchedulingGate.name"),
    *("PodAffinityTerm.matchLabelKeys", "PodAffinityTerm.mismatchLabelKeys"),
    *("TopologySpreadConstraint.matchLabelKeys",),
)
_RELATIVE = ("VolumeMount.subPath", "VolumeMount.subPathExpr")
_FILES = ("KeyToPath.path", "DownwardAPIVolumeFile.path", "ServiceAccountTokenProjection.path")

RULES: Final[Mapping[str, values.Rule]] = {
    **dict.fromkeys(_SUBDOMAIN_NAMES, values.dns_subdomain),
    **dict.fromkeys(_LABEL_NAMES, values.dns_label),
    **dict.fromkeys(_LABEL_KEYS, values.label_key),
    **dict.fromkeys(_RELATIVE, values.relative_path),
    **dict.fromkeys(_FILES, values.file_path),
    "ConfigMapKeySelector.key": values.config_key,
    "ContainerPort.name": values.port_name,
    "EmptyDirVolumeSource.medium": values.medium,
    "EnvFromSource.prefix": values.env_prefix,
    "EnvVar.name": values.env_name,
    "HTTPGetAction.port": values.port_name,
    "HostAlias.ip": values.ip_address,
    "HostPathVolumeSource.path": values.no_parent,
    "KeyToPath.key": values.config_key,
    "NodeSelectorRequirement.values": values.label_value,
    "ObjectFieldSelector.fieldPath": values.pod_field,
    "PodDNSConfig.nameservers": values.ip_address,
    "PodDNSConfig.searches": values.search_domain,
    "PodDNSConfigOption.name": values.not_empty,
    "ResourceFieldSelector.resource": values.container_resource,
    "SecretKeySelector.key": values.config_key,
    "Sysctl.name": values.sysctl,
    "TCPSocketAction.port": values.port_name,
    "Toleration.key": values.toleration_key,
    "VolumeMount.mountPath": values.mount_path,
    # Of maps: keys end with a dot, values with ".*".
    "LabelSelector.matchLabels.": values.label_key,
    "LabelSelector.matchLabels.*": values.label_value,
    "ObjectMeta.annotations.": values.annotation_key,
    "ObjectMeta.labels.": values.label_key,
    "ObjectMeta.labels.*": values.label_value,
    "PodSpec.nodeSelector.": values.label_key,
    "PodSpec.nodeSelector.*": values.label_value,
    "PodSpec.overhead.": values.label_key,
    "ResourceRequirements.limits.": values.label_key,
    "ResourceRequirements.requests.": values.label_key,
}
# A name by which a policy's parts find each other: it is known before any pod is.
FIXED: Final[Mapping[str, values.Rule]] = {"Container.name": values.dns_label}

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_NODE_POLICIES = ("Honor", "Ignore")
_PATH_TYPES = (
    *("", "DirectoryOrCreate", "Directory", "FileOrCreate"),
    *("File", "Socket", "CharDevice", "BlockDevice"),
)
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")

CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "AppArmorProfile.type": _PROFILES,
    "Container.imagePullPolicy": _PULL_POLICIES,
    "Container.restartPolicy": ("Always", "OnFailure", "Never"),
    "Container.terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "ContainerPort.protocol": ("TCP", "UDP", "SCTP"),
    "HTTPGetAction.scheme": ("HTTP", "HTTPS"),
    "HostPathVolumeSource.type": _PATH_TYPES,
    "ImageVolumeSource.pullPolicy": _PULL_POLICIES,
    "LabelSelectorRequirement.operator": _OPERATORS,
    "NodeSelectorRequirement.operator": (*_OPERATORS, "Gt", "Lt"),
    "PersistentVolumeClaimSpec.accessModes": _ACCESS_MODES,
    "PersistentVolumeClaimSpec.volumeMode": ("Filesystem", "Block"),
    "PodOS.name": ("linux", "windows"),
    "PodSecurityContext.fsGroupChangePolicy": ("OnRootMismatch", "Always"),
    "PodSecurityContext.seLinuxChangePolicy": ("MountOption", "Recursive"),
    "PodSecurityContext.supplementalGroupsPolicy": ("Merge", "Strict"),
    "PodSpec.dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "PodSpec.preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "PodSpec.restartPolicy": ("Always", "OnFailure", "Never"),
    "SeccompProfile.type": _PROFILES,
    "SecurityContext.procMount": ("Default", "Unmasked"),
    "Toleration.effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "Toleration.operator": ("Equal", "Exists", "Lt", "Gt"),
    "TopologySpreadConstraint.nodeAffinityPolicy": _NODE_POLICIES,
    "TopologySpreadConstraint.nodeTaintsPolicy": _NODE_POLICIES,
    "TopologySpreadConstraint.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    "VolumeMount.mountPropagation": ("None", "HostToContainer", "Bidirectional"),
    "VolumeMount.recursiveReadOnly": ("Disabled", "IfPossible", "Enabled"),
}

_PORT, _ID, _WEIGHT, _COUNT, _MODE = (
    *((1, 65535), (0, INT32_MAX), (1, 100)),
    *((0, INT32_MAX), (0, values.FILE_MODE_MAX)),
)
RANGES: Final[Mapping[str, tuple[int, int]]] = {
    "ConfigMapVolumeSource.defaultMode": _MODE,
    "ContainerPort.containerPort": _PORT,
    "ContainerPort.hostPort": (0, 65535),
    "DownwardAPIVolumeFile.mode": _MODE,
    "DownwardAPIVolumeSource.defaultMode": _MODE,
    "GRPCAction.port": _PORT,
    "HTTPGetAction.port": _PORT,
    "KeyToPath.mode": _MODE,
    "PodSecurityContext.fsGroup": _ID,
    "PodSecurityContext.runAsGroup": _ID,
    "PodSecurityContext.runAsUser": _ID,
    "PodSecurityContext.supplementalGroups": _ID,
    "PodSpec.activeDeadlineSeconds": (1, INT32_MAX),
    "PodSpec.terminationGracePeriodSeconds": (0, values.INT64_MAX),
    "PreferredSchedulingTerm.weight": _WEIGHT,
    "Probe.failureThreshold": _COUNT,
    "Probe.initialDelaySeconds": _COUNT,
    "Probe.periodSeconds": _COUNT,
    "Probe.successThreshold": _COUNT,
    "Probe.terminationGracePeriodSeconds": (1, values.INT64_MAX),
    "Probe.timeoutSeconds": _COUNT,
    "ProjectedVolumeSource.defaultMode": _MODE,
    "SecretVolumeSource.defaultMode": _MODE,
    "SecurityContext.runAsGroup": _ID,
    "SecurityContext.runAsUser": _ID,
    "TCPSocketAction.port": _PORT,
    "TopologySpreadConstraint.maxSkew": (1, INT32_MAX),
    "TopologySpreadConstraint.minDomains": (1, INT32_MAX),
    "WeightedPodAffinityTerm.weight": _WEIGHT,
}

EXACTLY_ONE: Final[Mapping[str, tuple[str, ...]]] = {
    "DownwardAPIVolumeFile": ("fieldRef", "resourceFieldRef"),
    "EnvFromSource": ("configMapRef", "secretRef"),
    "EnvVarSource": ("configMapKeyRef", "fieldRef", "fileKeyRef", "resourceFieldRef", "secretKeyRef"),
    "LifecycleHandler": ("exec", "httpGet", "sleep", "tcpSocket"),
    "VolumeProjection": (
        *("clusterTrustBundle", "configMap", "downwardAPI"),
        *("podCertificate", "secret", "serviceAccountToken"),
    ),
}
# Not exactly one: a part of a probe may be added to what the author has.
AT_MOST_ONE: Final[Mapping[str, tuple[str, ...]]] = {
    "EnvVar": ("value", "valueFrom"),
    "Probe": ("exec", "grpc", "httpGet", "tcpSocket"),
    "VolumeMount": ("subPath", "subPathExpr"),
}


def _requirement(value: Json) -> None:
    """A label selector's or a node selector's requirement."""
    operator, count = value["operator"], len(value.get("values", ()))
    if operator in ("In", "NotIn") and not count:
        raise fault(f"operator {operator} needs at least one value", "values")
    if operator in ("Exists", "DoesNotExist") and count:
        raise fault(f"operator {operator} takes no values: remove them", "values")
    if operator in ("Gt", "Lt") and count != 1:
        raise fault(f"operator {operator} needs exactly one value, a whole number", "values")


def _profile(value: Json) -> None:
    """A seccomp or AppArmor profile."""
    if (value["type"] == "Localhost") != bool(value.get("localhostProfile")):
        raise fault("localhostProfile goes with type: Localhost, and only with it", "localhostProfile")


def _toleration(value: Json) -> None:
    if value.get("operator") == "Exists" and value.get("value"):
        raise fault("operator Exists takes no value: remove it, or use operator: Equal", "value")
    if not value.get("key") and value.get("operator") != "Exists":
        raise fault("without a key, only operator: Exists is possible: it tolerates every taint")
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        raise fault("only goes with effect: NoExecute", "tolerationSeconds")


def _spread(value: Json) -> None:
    if value.get("minDomains") is not None and value["whenUnsatisfiable"] != "DoNotSchedule":
        raise fault("only goes with whenUnsatisfiable: DoNotSchedule", "minDomains")


def _mount(value: Json) -> None:
    if value.get("recursiveReadOnly") in ("IfPossible", "Enabled") and not value.get("readOnly"):
        raise fault("needs readOnly: true", "recursiveReadOnly")


def _claim(value: Json) -> None:
    """A claim's spec."""
    modes = value.get("accessModes", ())
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        raise fault("ReadWriteOncePod goes with no other mode", "accessModes")
    size = value.get("resources", {}).get("requests", {}).get("storage")
    if size is not None and quantity(size) == 0:
        raise fault("must be greater than 0", "resources", "requests", "storage")


CHECKS: Final[Mapping[str, Check]] = {
    "AppArmorProfile": _profile,
    "LabelSelectorRequirement": _requirement,
    "PersistentVolumeClaimSpec": _claim,
    "NodeSelectorRequirement": _requirement,
    "SeccompProfile": _profile,
    "Toleration": _toleration,
    "TopologySpreadConstraint": _spread,
    "VolumeMount": _mount,
}

OPAQUE: Final = frozenset(
    {
        # Whole parts of a pod.
        *("Affinity", "NodeAffinity", "PodAffinity", "PodAntiAffinity", "Container", "PodSpec", "Volume"),
        *("Lifecycle", "LifecycleHandler", "Probe", "TopologySpreadConstraint", "PodSecurityContext"),
        *("SecurityContext", "ResourceRequirements"),
        # Volumes of systems that have CSI drivers of their own by now, or are gone.
        *("AWSElasticBlockStoreVolumeSource", "AzureDiskVolumeSource", "AzureFileVolumeSource"),
        *("CephFSVolumeSource", "CinderVolumeSource", "FCVolumeSource", "FlexVolumeSource"),
        *("FlockerVolumeSource", "GCEPersistentDiskVolumeSource", "GitRepoVolumeSource"),
        *("GlusterfsVolumeSource", "ISCSIVolumeSource", "PhotonPersistentDiskVolumeSource"),
        *("PortworxVolumeSource", "QuobyteVolumeSource", "RBDVolumeSource", "ScaleIOVolumeSource"),
        *("StorageOSVolumeSource", "VsphereVirtualDiskVolumeSource"),
        *("ClusterTrustBundleProjection", "PodCertificateProjection"),
    }
)
"""Types that a CRD does not describe, since it must stay small; the server checks them all the same."""
