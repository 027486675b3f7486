"""The feature steps in the order in which they are applied: the table of contents of what policies can do."""

from webhook.steps import (
    annotations,
    config_maps,
    env,
    env_from,
    hadoop,
    image_pull_secrets,
    kerberos,
    kubernetes_credentials,
    labels,
    node_selector,
    pod_template,
    secrets,
    tolerations,
    volumes,
)
from webhook.steps.base import Step

STEPS: tuple[Step, ...] = (
    secrets.STEP,
    config_maps.STEP,
    volumes.STEP,
    hadoop.STEP,
    kerberos.STEP,
    kubernetes_credentials.STEP,
    env.STEP,
    env_from.STEP,
    labels.STEP,
    annotations.STEP,
    node_selector.STEP,
    tolerations.STEP,
    image_pull_secrets.STEP,
    pod_template.STEP,
)
