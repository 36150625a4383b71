#!/usr/bin/env python3
"""What Kubeflow Trainer and SkyPilot accept, from the models and schemas that their packages have.

Without arguments: a line a field, TYPE FIELD required|optional KIND[|KIND ...], for tests/launch/check_yaml.c. KIND is
string, int, number, bool, null, =WORD (in any case), a TYPE, or list:, map: before one. TYPEs that our files have no
use for are left out.
With FILES of `gen launch`: validates them with those models themselves; prints what they say, nothing if all is well."""
import sys
import typing
from importlib.metadata import version

import jsonschema
import sky.utils.schemas as schemas
import yaml
from kubeflow_trainer_api import models

ROOTS = {"TrainJob": models.TrainerV1alpha1TrainJob, "TrainingRuntime": models.TrainerV1alpha1TrainingRuntime}
# volumes of other kinds, placement by affinity, states, and what initialises data: whole trees of types
UNUSED = ("Affinity", "Status", "Initializer", "ManagedFields", "Ephemeral", "Projected", "Lifecycle", "Http", "HTTP",
          "Grpc", "GRPC", "Exec")
VOLUMES = ("PersistentVolumeClaimVolumeSource", "EmptyDirVolumeSource")


def used(model):
    name = model.__name__
    return not any(word in name for word in UNUSED) and ("VolumeSource" not in name or name.endswith(VOLUMES))


def kinds_of(annotation):
    """(prefix, leaf) of an annotation; the leaf is a word or a model."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return kinds_of(args[0])
    if origin is typing.Union:
        return [kind for arg in args if arg is not type(None) for kind in kinds_of(arg)]
    if origin in (list, set):
        return [("list:" + prefix, leaf) for prefix, leaf in kinds_of(args[0])]
    if origin is dict:
        return [("map:" + prefix, leaf) for prefix, leaf in kinds_of(args[1])]
    if hasattr(annotation, "model_fields"):
        if "one_of_schemas" in annotation.model_fields:
            return kinds_of(annotation.model_fields["actual_instance"].annotation)
        return [("", annotation)]
    return [("", {int: "int", float: "number", bool: "bool"}.get(annotation, "string"))]


def model_rows(name, model, rows, seen):
    if name in seen:
        return
    seen.add(name)
    for field, info in model.model_fields.items():
        said = []
        for kind in kinds_of(info.annotation):
            prefix, leaf = kind
            if isinstance(leaf, str):
                said.append(prefix + leaf)
            elif used(leaf):
                said.append(prefix + leaf.__name__)
                model_rows(leaf.__name__, leaf, rows, seen)
        if said:
            required = "required" if info.is_required() else "optional"
            rows.append((name, info.alias or field, required, "|".join(said)))


def schema_kinds(name, schema, rows):
    for alternatives in ("anyOf", "oneOf"):
        if alternatives in schema:
            return [kind for one in schema[alternatives] for kind in schema_kinds(name, one, rows)]
    if "case_insensitive_enum" in schema:
        return ["=" + word for word in schema["case_insensitive_enum"]]
    said = []
    for word in [schema["type"]] if isinstance(schema["type"], str) else schema["type"]:
        if word == "array":
            said += ["list:" + kind for kind in schema_kinds(name, schema["items"], rows)]
        elif word == "object" and "properties" in schema:
            required = schema.get("required", [])
            for field, of in schema["properties"].items():
                kinds = schema_kinds(f"{name}.{field}", of, rows)
                if kinds:
                    rows.append((name, field, "required" if field in required else "optional", "|".join(kinds)))
            said.append(name)
        elif word == "object":
            value = next(iter(schema.get("patternProperties", {}).values()), schema.get("additionalProperties", False))
            said += ["map:" + kind for kind in schema_kinds(name, value, rows)] if isinstance(value, dict) else []
        else:
            said.append({"integer": "int", "boolean": "bool"}.get(word, word))
    return said


def sky_task():
    """The schema of a task, with those that SkyPilot applies to its parts, and of config the part of docker."""
    task = schemas.get_task_schema()
    keep = ("name", "num_nodes", "workdir", "setup", "run", "envs", "secrets", "config")
    properties = {name: task["properties"][name] for name in keep}
    docker = properties["config"]["properties"]["docker"]
    properties["config"] = {"type": "object", "properties": {"docker": docker}}
    resources = schemas.get_resources_schema()
    names = ("infra", "cpus", "memory", "accelerators", "use_spot", "job_recovery", "image_id", "disk_size")
    properties["resources"] = {"type": "object", "properties": {name: resources["properties"][name] for name in names}}
    storage = schemas.get_storage_schema()
    storage["properties"] = {name: of for name, of in storage["properties"].items() if name[0] != "_" and name != "config"}
    properties["file_mounts"] = {"type": "object", "additionalProperties": {"anyOf": [{"type": "string"}, storage]}}
    return {"type": "object", "properties": properties}


def print_table():
    print(f"# of kubeflow-trainer-api {version('kubeflow-trainer-api')} and skypilot {version('skypilot')}, by "
          "tests/oracle/engines.py")
    rows, seen = [], set()
    for name, model in ROOTS.items():
        model_rows(name, model, rows, seen)
    schema_kinds("SkyPilot", sky_task(), rows)
    for row in sorted(set(rows)):
        print(*row, sep="\t")


def validate(path):
    with open(path, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    for document in documents:
        if "kind" in document:
            model = ROOTS[document["kind"]]
            again = model.from_dict(document).to_dict()
            if again != document:
                print(f"{path}: {document['kind']}: is read as another: {again}")
            continue
        jsonschema.validate(document, schemas.get_task_schema())
        jsonschema.validate(document["resources"], schemas.get_resources_schema())
        for mount in document["file_mounts"].values():
            jsonschema.validate(mount, schemas.get_storage_schema())


if len(sys.argv) == 1:
    print_table()
for name in sys.argv[1:]:
    try:
        validate(name)
    except Exception as error:       # of any of the three libraries
        print(f"{name}: {type(error).__name__}: {error}")
