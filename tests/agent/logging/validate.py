"""Holds each line of standard input against the JSON Schema in the first argument. Prints what is wrong, and exits with 1.

Needs the library jsonschema (Debian: python3-jsonschema).
"""

import json
import sys

import jsonschema

with open(sys.argv[1], encoding="utf-8") as file:
    SCHEMA = json.load(file)
jsonschema.Draft202012Validator.check_schema(SCHEMA)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

wrong = 0
for line in sys.stdin.buffer:
    try:
        problems = [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(json.loads(line))]
    except ValueError as error:
        problems = [str(error)]
    for problem in problems:
        wrong += 1
        print(f"{problem}\n    {line.decode(errors='replace').rstrip()}")
sys.exit(wrong > 0)
