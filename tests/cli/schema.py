# SPDX-License-Identifier: BSD-2-Clause
"""JSON Schema, as much of draft 7 as speedscope's file-format-schema.json needs. That file is that of the npm
package "speedscope" (make speedscope); without it the rules below alone hold, which say the same."""

import json
import os

from checks import Failure

SCHEMA = os.path.join(os.environ.get("SPEEDSCOPE", "."), "file-format-schema.json")
NUMBER, STRING = {"type": "number"}, {"type": "string"}


def array(items):
    return {"type": "array", "items": items}


def record(required, **properties):
    return {"type": "object", "required": required.split(), "properties": properties}


OURS = record(
    "$schema profiles shared",
    **{"$schema": {"const": "https://www.speedscope.app/file-format-schema.json"}},
    activeProfileIndex=NUMBER, exporter=STRING, name=STRING,
    shared=record("frames", frames=array(record("name", name=STRING, file=STRING, line=NUMBER, col=NUMBER))),
    profiles=array(record(
        "endValue name samples startValue type unit weights",
        endValue=NUMBER, startValue=NUMBER, name=STRING, type={"const": "sampled"},
        unit={"enum": ["bytes", "microseconds", "milliseconds", "nanoseconds", "none", "seconds"]},
        samples=array(array(NUMBER)), weights=array(NUMBER))),
)
TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool}
KNOWN = {"$schema", "$ref", "definitions", "title", "type", "const", "enum", "anyOf", "properties", "required", "items", "description"}


def fails(value, rule, whole, place):
    """Why a value is not as the rule says, or None."""
    if "$ref" in rule:
        rule = whole["definitions"][rule["$ref"].removeprefix("#/definitions/")]
    unknown = set(rule) - KNOWN
    if unknown:
        return f"{place}: the schema uses {unknown}, which is not understood here"
    if "anyOf" in rule:
        whys = [fails(value, r, whole, place) for r in rule["anyOf"]]
        return None if None in whys else " / ".join(whys)
    if "type" in rule and (not isinstance(value, TYPES[rule["type"]]) or isinstance(value, bool) != (rule["type"] == "boolean")):
        return f"{place} is no {rule['type']}"
    if value != rule.get("const", value) or ("enum" in rule and value not in rule["enum"]):
        return f"{place} is {value!r}"
    for key in rule.get("required", []):
        if key not in value:
            return f"{place}.{key} is missing"
    children = [(value[k], r, f"{place}.{k}") for k, r in rule.get("properties", {}).items() if k in value]
    if "items" in rule:
        children += [(v, rule["items"], f"{place}[{i}]") for i, v in enumerate(value)]
    return next((why for v, r, p in children if (why := fails(v, r, whole, p))), None)


def speedscope(doc):
    rules = [OURS]
    if os.path.exists(SCHEMA):
        with open(SCHEMA) as f:
            rules.append(json.load(f))
    for rule in rules:
        top = rule if "properties" in rule or "$ref" in rule else rule["definitions"]["FileFormat.File"]
        why = fails(doc, top, rule, "$")
        if why:
            raise Failure(f"not as speedscope's schema says: {why}")
