"""Checks rendered manifests against the operators' own CRD files, strictly:

    kubectl kustomize deploy/kubernetes/overlays/scale > all.yaml
    python -m deploy.kubernetes.check_crds all.yaml scaledobjects.yaml podmonitors.yaml ...

The CRDs come from the operators' releases; they are not kept here.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import yaml

Kind = tuple[str, str]  # apiVersion, kind


def documents(path: str) -> list[Any]:
    return [each for each in yaml.safe_load_all(Path(path).read_text("utf-8")) if each]


def schemas(paths: Sequence[str]) -> Iterator[tuple[Kind, Any]]:
    for crd in (each for path in paths for each in documents(path)):
        spec = crd.get("spec", {})
        for version in spec.get("versions", ()):
            kind = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            yield kind, strict(version["schema"]["openAPIV3Schema"])


def strict(schema: Any) -> Any:
    """Unknown fields are refused, as the API server would drop them in silence."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: strict(each) for name, each in schema.items()}
    if closed.pop("x-kubernetes-int-or-string", False):
        closed.pop("type", None)
    if "properties" in closed and not closed.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def problems(manifest: Any, known: dict[Kind, Any]) -> Iterator[str]:
    schema = known[manifest["apiVersion"], manifest["kind"]]
    free = {**schema, "properties": {**schema["properties"], "metadata": {"type": "object"}}}
    for error in jsonschema.Draft7Validator(free).iter_errors(manifest):
        where = ".".join(map(str, error.path))
        yield f"{manifest['kind']} {manifest['metadata']['name']}: {where}: {error.message[:200]}"


def main(manifests: str, crds: Sequence[str]) -> int:
    known = dict(schemas(crds))
    checked = [each for each in documents(manifests) if (each["apiVersion"], each["kind"]) in known]
    found = [problem for each in checked for problem in problems(each, known)]
    sys.stdout.write("".join(f"{each}\n" for each in found) + f"{len(checked)} checked\n")
    return 1 if found or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
