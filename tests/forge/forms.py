"""Holds the issue forms to what GitHub's form schema asks of the elements that are used here. Prints what is wrong.

Needs PyYAML, which comes with kubernetes-validate.
"""

import sys
from pathlib import Path

import yaml

TYPES = {"markdown": {"value"}, "input": {"label"}, "textarea": {"label"}, "dropdown": {"label", "options"}}
ATTRIBUTES = {"value", "label", "description", "placeholder", "render", "options"}


def errors(form):
    for key in ("name", "description", "body"):
        if not form.get(key):
            yield f"{key} is missing"
    unknown = set(form) - {"name", "description", "title", "labels", "assignees", "body"}
    yield from (f"{key} is no key of a form" for key in unknown)
    names = [element["id"] for element in form["body"] if "id" in element]
    if len(names) != len(set(names)):
        yield "an id stands twice"
    for element in form["body"]:
        yield from element_errors(element)
    if all(element["type"] == "markdown" for element in form["body"]):
        yield "asks for nothing"


def element_errors(element):
    name = f"{element['type']} {element.get('id', '')}"
    if element["type"] not in TYPES:
        yield f"{name}: no known type"
        return
    attributes = element["attributes"]
    missing = TYPES[element["type"]] - set(attributes)
    yield from (f"{name}: {key} is missing" for key in missing)
    yield from (f"{name}: {key} is no attribute" for key in set(attributes) - ATTRIBUTES)
    yield from (f"{name}: {key} is not text" for key, value in attributes.items() if key != "options" and not isinstance(value, str))
    if set(element) - {"type", "id", "attributes", "validations"}:
        yield f"{name}: an unknown key"
    if set(element.get("validations", {})) - {"required"}:
        yield f"{name}: an unknown validation"


def main():
    forms = sorted(file for file in Path(sys.argv[1]).glob("*.yml") if file.name != "config.yml")
    found = [f"{file.name}: {error}" for file in forms for error in errors(yaml.safe_load(file.read_text(encoding="utf-8")))]
    if len(forms) < 3:
        found.append(f"{len(forms)} forms")
    sys.stdout.writelines(f"{finding}\n" for finding in found)
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
