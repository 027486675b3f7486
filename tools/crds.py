"""Writes the CRDs that the policy model stands for: `python tools/crds.py`, from the repository's root."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from webhook.policy import crd
from webhook.policy.model import CLUSTER_KIND, NAMESPACED_KIND

HEADER = "# Written by tools/crds.py from the policy model (webhook/policy/model.py).\n"
# A chart can't refer to what is outside of it.
FOLDERS = (Path("manifests/crds"), Path("manifests/helm/spark-webhook/files/crds"))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def files() -> dict[Path, str]:
    """Path from the repository's root -> text."""
    found = {}
    for kind in (CLUSTER_KIND, NAMESPACED_KIND):
        definition = crd.definition(kind)
        text = HEADER + yaml.dump(definition, Dumper=_Dumper, sort_keys=False, width=110)
        for folder in FOLDERS:
            found[folder / f"{definition['spec']['names']['plural']}.yaml"] = text
    return found


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
        print(f"{path}: {len(text)} bytes")
