"""The closed set of reason codes: the same word in log, metric, warning, status annotation and CLI.

A reason is a value, never a sentence built elsewhere; `explain` is the one place that says what it means.
"""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Why a pod, or one feature of a policy, ended as it did."""

    # what became of the whole pod
    MUTATED = "Mutated"
    UNCHANGED = "Unchanged"
    NO_POLICY = "NoPolicy"
    DENIED = "Denied"
    NOT_A_POD = "NotAPod"
    NOT_A_CREATE = "NotACreate"
    SYSTEM_NAMESPACE = "SystemNamespace"
    MIRROR_POD = "MirrorPod"
    NO_SPARK_ROLE = "NoSparkRole"
    UNKNOWN_SPARK_ROLE = "UnknownSparkRole"

    # what became of one feature
    REPLACED = "Replaced"
    CONFLICT_KEPT = "ConflictKept"
    CONFLICT_REJECTED = "ConflictRejected"
    EXECUTOR_NOT_REJECTED = "ExecutorNotRejected"
    POLICY_CONFLICT = "PolicyConflict"
    SPARK_OWNS = "SparkOwns"
    SPARK_CONFIGURED = "SparkConfigured"
    SPARK_CONTAINER_NOT_FOUND = "SparkContainerNotFound"
    CONTAINER_NOT_FOUND = "ContainerNotFound"
    VOLUME_NOT_FOUND = "VolumeNotFound"
    NAME_TAKEN = "NameTaken"
    LIST_FULL = "ListFull"
    WOULD_BE_INVALID = "WouldBeInvalid"
    INVALID_CONF = "InvalidConf"
    GUARDED = "Guarded"
    NO_SPARK_ARGUMENTS = "NoSparkArguments"
    NOT_JOINABLE = "NotJoinable"
    NO_VALUE = "NoValue"
    INVALID_VALUE = "InvalidValue"
    ANNOTATIONS_TOO_LARGE = "AnnotationsTooLarge"
    CONDITION_FAILED = "ConditionFailed"
    EXCLUDED = "Excluded"
    POLICY_WITHDRAWN = "PolicyWithdrawn"

    @property
    def explain(self) -> str:
        """One sentence for a reader who sees the code for the first time."""
        return _TEXT[self]


_TEXT: dict[Reason, str] = {
    Reason.MUTATED: "policies matched and the pod was changed",
    Reason.UNCHANGED: "policies matched, and the pod already is as they leave it",
    Reason.NO_POLICY: "no policy matches this pod",
    Reason.DENIED: "a policy with onConflict: Reject refuses the pod",
    Reason.NOT_A_POD: "the request is not about a pod itself",
    Reason.NOT_A_CREATE: "only the creation of a pod is looked at",
    Reason.SYSTEM_NAMESPACE: "system namespaces and the webhook's own are never touched",
    Reason.MIRROR_POD: "a mirror pod only reflects a static pod of a node",
    Reason.NO_SPARK_ROLE: "the pod has no spark-role label",
    Reason.UNKNOWN_SPARK_ROLE: "spark-role is neither driver nor executor",
    Reason.REPLACED: "the pod had another value and the policy says onConflict: Replace",
    Reason.CONFLICT_KEPT: "the pod has another value, which was kept",
    Reason.CONFLICT_REJECTED: "the pod has another value and the policy says onConflict: Reject",
    Reason.EXECUTOR_NOT_REJECTED: "the pod has another value, which was kept: only drivers are rejected",
    Reason.POLICY_CONFLICT: "a policy that goes first asks for another value",
    Reason.SPARK_OWNS: "Spark or Kubernetes itself set this and it is never changed",
    Reason.SPARK_CONFIGURED: "Spark was configured with this feature itself",
    Reason.SPARK_CONTAINER_NOT_FOUND: "it can't be told which container is Spark's",
    Reason.CONTAINER_NOT_FOUND: "a container that the policy names is not in the pod",
    Reason.VOLUME_NOT_FOUND: "a volume that is to be mounted is not in the pod",
    Reason.NAME_TAKEN: "something else in the pod has this name, which must be unique",
    Reason.LIST_FULL: "Kubernetes allows no more items in this list",
    Reason.WOULD_BE_INVALID: "with it, Kubernetes would refuse the pod",
    Reason.INVALID_CONF: "a key of the pod's conf annotation does not say what can be done",
    Reason.GUARDED: "only policies may ask for this, unless the server is started to allow it",
    Reason.NO_SPARK_ARGUMENTS: "the driver's arguments are not those that Spark's entry point gets",
    Reason.NOT_JOINABLE: "the pod's value is not a literal, so nothing can be joined to it",
    Reason.NO_VALUE: "a placeholder has no value here and no default",
    Reason.INVALID_VALUE: "with its placeholders filled in, the value is not valid",
    Reason.ANNOTATIONS_TOO_LARGE: "the pod's annotations would exceed 256 KiB",
    Reason.CONDITION_FAILED: "a condition of the policy is neither true nor false for this pod",
    Reason.EXCLUDED: "the pod's exclude annotation names this policy",
    Reason.POLICY_WITHDRAWN: "another part of this atomic policy could not be applied",
}
