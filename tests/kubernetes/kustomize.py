"""Builds a kustomization as kustomize does, as far as docker/kubernetes uses it, and refuses everything else.

Resources, components, patches by strategic merge, namespace and images. Where kustomize or kubectl is installed,
check.py holds the result against theirs. Needs PyYAML, which comes with kubernetes-validate.
"""

import copy
import functools
from pathlib import Path

import yaml

KINDS = {"Kustomization": "kustomize.config.k8s.io/v1beta1", "Component": "kustomize.config.k8s.io/v1alpha1"}
FIELDS = {"apiVersion", "kind", "namespace", "resources", "components", "patches", "images"}

# Lists whose items a strategic merge finds by a key: by the list's name. Other lists are replaced as a whole.
MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "topologySpreadConstraints": "topologyKey",
}

NOT_IN_A_NAMESPACE = {"Namespace"}


class Wrong(Exception):
    """Something in the files is not as it must be. The message is for a person."""


def found_by(check, root):
    """What a check finds, one after the other, or cannot go on without."""
    try:
        yield from check(root)
    except Wrong as wrong:
        yield str(wrong)
    except KeyError as missing:
        yield f"{missing.args[0]} is missing"


class StrictLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """A key that stands twice is an error, as it is for the API server."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({key for key in keys if keys.count(key) > 1})
        if twice:
            raise Wrong(f"line {node.start_mark.line + 1}: {', '.join(twice)} twice")
        return super().construct_mapping(node, deep)


@functools.cache
def parse(text):
    return [document for document in yaml.load_all(text, Loader=StrictLoader) if document is not None]


def load(path):
    """The documents of a file."""
    return copy.deepcopy(parse(Path(path).read_text(encoding="utf-8")))


def load_one(path):
    documents = load(path)
    if len(documents) != 1:
        raise Wrong(f"{path}: {len(documents)} documents, not one")
    return documents[0]


def merge(target, patch):
    """A strategic merge: null removes, mappings merge, lists merge by their key where they have one; `$patch: delete` removes
    an item of such a list."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        elif isinstance(value, list) and key in MERGE_KEYS:
            merge_list(target.setdefault(key, []), value, MERGE_KEYS[key])
        else:
            target[key] = copy.deepcopy(value)


def merge_list(target, patch, key):
    for item in patch:
        same = [old for old in target if old[key] == item[key]]
        if item.get("$patch") == "delete":
            if not same:
                raise Wrong(f"{item[key]} is to be removed, and is not there")
            target.remove(same[0])
        elif same:
            merge(same[0], item)
        else:
            target.append({})
            merge(target[-1], item)


def identity(resource):
    return resource["apiVersion"], resource["kind"], resource["metadata"]["name"]


def build(folder, said=None):
    """The resources of a kustomization: that of the folder, or `said` in its place."""
    return apply(Path(folder), [], said)


def apply(folder, resources, said=None):
    """What becomes of these resources with the kustomization of a folder."""
    path = folder / "kustomization.yaml"
    if not path.is_file():
        raise Wrong(f"{folder}: has no kustomization.yaml")
    said = said or load_one(path)
    unknown = set(said) - FIELDS
    if unknown or KINDS.get(said.get("kind")) != said.get("apiVersion"):
        raise Wrong(f"{path}: {sorted(unknown) or 'kind and apiVersion do not fit'}")
    for name in said.get("resources", []):
        add(resources, folder / name, path)
    for name in said.get("components", []):
        component = folder / name
        if component.is_dir() and load_one(component / "kustomization.yaml")["kind"] != "Component":
            raise Wrong(f"{path}: {name} is not a Component")
        apply(component, resources)
    for entry in said.get("patches", []):
        if set(entry) != {"path"}:
            raise Wrong(f"{path}: a patch other than one by path: {entry}")
        patch(resources, folder / entry["path"])
    for resource in resources if "namespace" in said else []:
        if resource["kind"] not in NOT_IN_A_NAMESPACE:
            resource["metadata"]["namespace"] = said["namespace"]
    for image in said.get("images", []):
        set_image(resources, image, path)
    return resources


def add(resources, place, path):
    if place.is_dir():
        new = apply(place, [])
    elif place.is_file():
        new = load(place)
    else:
        raise Wrong(f"{path}: {place.name} is not there")
    for resource in new:
        if identity(resource) in [identity(known) for known in resources]:
            raise Wrong(f"{path}: {identity(resource)} twice")
        resources.append(resource)


def patch(resources, path):
    if not path.is_file():
        raise Wrong(f"{path}: is not there")
    change = load_one(path)
    found = [resource for resource in resources if identity(resource) == identity(change)]
    if len(found) != 1:
        raise Wrong(f"{path}: patches {identity(change)}, which is not there")
    names = containers_of(found[0])
    merge(found[0], change)
    # A name that is misspelt in a patch makes a second container, and kustomize says nothing.
    for container in containers_of(found[0]) - names:
        if not any("image" in added for added in all_containers(change) if added["name"] == container):
            raise Wrong(f"{path}: patches the container {container}, which is not there")


def all_containers(workload):
    pod = workload.get("spec", {}).get("template", {}).get("spec", {})
    return pod.get("containers", []) + pod.get("initContainers", [])


def containers_of(workload):
    return {container["name"] for container in all_containers(workload)}


def set_image(resources, image, path):
    matches = 0
    for resource in resources:
        for container in all_containers(resource):
            name, _, _tag = container["image"].rpartition(":")
            if name == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
                matches += 1
    if not matches:
        raise Wrong(f"{path}: no container has the image {image['name']}")
