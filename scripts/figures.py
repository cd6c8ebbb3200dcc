"""Measure the figures of README.md and docs/ with the commands in docs/figures.yaml.

    python scripts/figures.py                # measure all groups, and update the pages
    python scripts/figures.py squares co2    # measure the groups `squares` and `co2`
    python scripts/figures.py --check        # compare the pages with the recorded figures

For each group of figures, docs/figures.yaml lists the commands, the values to read from their
output, and the places in the pages. docs/figures.json records the values, with a digest of the code
and configs that produced them and the processor on which they were measured. `--check` fails if a
page differs from the record, or if no command produces a picture or a table of measured numbers. It
also lists the groups whose code has changed since they were measured.
"""

from __future__ import annotations

import argparse
import ast
import csv
import fnmatch
import functools
import hashlib
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from seqattn.experiments.run_environment import describe_processor

ROOT = Path(__file__).resolve().parents[1]
PLAN, RECORD = ROOT / "docs/figures.yaml", ROOT / "docs/figures.json"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "configs").rglob("*.yaml"))]  # fmt: skip
END = "<!-- end of figures -->"
REDUCE = {"median": statistics.median, "min": min, "max": max, "first": lambda xs: xs[0]}
NUMBER = r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?%?"


# --- reading what the commands wrote --------------------------------------------------------------


def read_value(spec: dict[str, Any], folder: Path, printed: list[str]) -> float | str:
    """Read one value from JSON or CSV files, or from the output of a command.

    Args:
        spec: the description of the value. `{file: GLOB, key: [...], reduce: median}` reads JSON
            files. For CSV files, `where: {column: text}` also selects the row.
            `{command: INDEX, match: REGEX}` reads the output of a command with a regular expression
            that has one group.
        folder: the folder in which the commands ran.
        printed: the output of each command.
    """
    if "match" in spec:
        (found,) = set(re.findall(spec["match"], printed[spec["command"]]))
        return as_number(found)
    found = []
    for path in sorted(folder.glob(spec["file"])):
        if path.suffix == ".csv":
            rows = csv.DictReader(path.read_text().splitlines())
            wanted = spec["where"].items()
            found += [as_number(row[spec["key"]]) for row in rows
                      if all(row[column] == str(text) for column, text in wanted)]  # fmt: skip
        else:
            value = json.loads(path.read_text())
            for key in spec["key"] if isinstance(spec["key"], list) else [spec["key"]]:
                value = value[key]
            found.append(value)
    if not found:
        raise SystemExit(f"{spec}: nothing was found")
    if "reduce" not in spec:
        (only,) = found
        return only
    return REDUCE[spec["reduce"]](found)


def as_number(text: str) -> float | str:
    return float(text) if re.fullmatch(NUMBER, text) else text


def comparison_table(spec: dict[str, Any], folder: Path) -> str:
    """Return selected columns of the first table of a comparison.md."""
    lines = (folder / spec["table"]).read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines if line.startswith("|")]  # fmt: skip
    heads = rows[0]
    count = next((k for k in range(2, len(rows)) if rows[k] and rows[k][0] == "first"), len(rows))
    places = [heads.index(name) for name in spec.get("columns", heads)]
    return "\n".join("| " + " | ".join(row[k] for k in places) + " |" for row in rows[:count])


def comparison_sentences(spec: dict[str, Any], folder: Path) -> str:
    """Return the list items of a comparison.md that are about the given pairs of variants."""
    bullets = [line for line in (folder / spec["sentences"]).read_text().splitlines()
               if line.startswith("- ")]  # fmt: skip
    found = []
    for pair in spec["pairs"]:
        named = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in pair]
        (bullet,) = (line for line in bullets if all(name.search(line) for name in named))
        found.append(textwrap.fill(bullet, 100, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(found)


def expanded(plan: dict[str, Any]) -> dict[str, Any]:
    """Repeat the values and texts of a group with `each: [a, b]` for `a` and for `b`."""

    def of(spec: Any, name: str) -> Any:
        return json.loads(json.dumps(spec).replace("<each>", name))

    for group in plan["groups"].values():
        names = [str(name) for name in group.pop("each", [])]
        if names:
            values, texts = group.get("values", {}), group.get("texts", [])
            group["values"] = {
                key: spec for name in names for key, spec in of(values, name).items()
            }
            group["texts"] = [text for name in names for text in of(texts, name)]
    return plan


# --- putting it into the pages --------------------------------------------------------------------


def block_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- figures: {re.escape(name)} -->\n).*?(\n{END})", re.DOTALL)


def template_pattern(template: str) -> re.Pattern[str]:
    """Convert a text with fields such as `{name:format}` to a pattern.

    A field matches any number. A space matches any whitespace, including the `#` that begins the
    next line of a comment in a config.
    """
    parts = re.split(r"\{\w+(?::[^}]*)?\}", " ".join(template.split()))
    escaped = [re.escape(part).replace(r"\ ", r"[\s#]+") for part in parts]
    return re.compile("".join(f"({part})({NUMBER})" for part in escaped[:-1]) + f"({escaped[-1]})")


def rendered(template: str, values: dict[str, Any]) -> list[str]:
    """Return the text of each field of a template."""
    fields = re.findall(r"\{\w+(?::[^}]*)?\}", template)
    return [field.format(**values) for field in fields]


def with_figures(page: str, group: dict[str, Any], record: dict[str, Any], name: str) -> str:
    """Return the text of a page with the recorded figures of a group in their places.

    Raises:
        SystemExit: if a place is missing from the page, or occurs more than once.
    """
    for block, text in record.get("blocks", {}).items():
        if group["blocks"][block]["page"] != name:
            continue
        page, count = block_pattern(block).subn(lambda m, text=text: m[1] + text + m[2], page)
        if count != 1:
            raise SystemExit(f"{name}: has {count} places <!-- figures: {block} -->, expected 1")
    for place in group.get("texts", ()):
        if place["page"] != name:
            continue
        pattern, numbers = (
            template_pattern(place["text"]),
            rendered(place["text"], record["values"]),
        )

        def filled(match: re.Match[str], numbers: list[str] = numbers) -> str:
            pieces = list(match.groups())
            pieces[1::2] = numbers
            return "".join(pieces)

        page, count = pattern.subn(filled, page)
        if count != 1:
            raise SystemExit(f"{name}: has {count} places with the text {place['text']!r}")
    return page


# --- the code behind a figure ---------------------------------------------------------------------


def code_digest(globs: list[str], commands: list[str]) -> str:
    """Return the SHA-256 digest of the files on which the figures of a group depend.

    These files are the code, and the configs and scripts that the commands name. What cannot change
    a figure does not change the digest; see `of_results`.

    Args:
        globs: path patterns that select the code.
        commands: the commands of the group.
    """
    named = [word for command in commands for word in shlex.split(command)
             if (ROOT / word).is_file()]  # fmt: skip
    modules = [str(path.relative_to(ROOT)) for path in (ROOT / "seqattn").rglob("*.py")]
    chosen = {path for path in modules if any(fnmatch.fnmatch(path, glob) for glob in globs)}
    digest = hashlib.sha256()
    for path in sorted(chosen | set(named)):
        content = (ROOT / path).read_bytes()
        if path.endswith(".py"):
            content = of_results(content.decode()).encode()
        elif path.endswith(".yaml"):  # without comments, because they may contain figures
            content = json.dumps(yaml.safe_load(content)).encode()
        digest.update(path.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


@functools.cache
def of_results(code: str) -> str:
    """Return a text that differs between two modules only if their results may differ.

    Comments, docstrings, annotations of types, and what a `raise` statement raises have no effect:
    a command that raises an error gives no figure. `ast.dump` is not used, because its text depends
    on the version of Python.
    """

    def describe(node: Any) -> Any:
        if isinstance(node, list):
            return [describe(each) for each in node if not is_text(each)]
        if not isinstance(node, ast.AST):
            return repr(node)
        if isinstance(node, ast.Raise):
            return "Raise"
        fields = [(name, value) for name, value in ast.iter_fields(node)
                  if name not in ("annotation", "returns", "type_comment", "type_params", "kind")
                  and value not in (None, [])]  # fmt: skip
        return [type(node).__name__, *((name, describe(value)) for name, value in fields)]

    return json.dumps(describe(ast.parse(code)))


def is_text(node: Any) -> bool:
    """Return whether a node is a statement that is only a text, such as a docstring."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


# --- making and checking --------------------------------------------------------------------------


def make_group(name: str, group: dict[str, Any], globs: list[str]) -> dict[str, Any]:
    """Run the commands of a group in a folder with a copy of configs/, and read its figures."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(ROOT / "configs", folder / "configs")
        printed = [run(command, folder) for command in group["commands"]]
        record: dict[str, Any] = {
            "commands": group["commands"],
            "values": {key: read_value(spec, folder, printed)
                       for key, spec in group.get("values", {}).items()},
        }  # fmt: skip
        blocks = {}
        for block, spec in group.get("blocks", {}).items():
            if "printed" in spec:
                blocks[block] = printed[spec["printed"]].strip()
            elif "table" in spec:
                blocks[block] = comparison_table(spec, folder)
            elif "sentences" in spec:
                blocks[block] = comparison_sentences(spec, folder)
            else:
                blocks[block] = spec["text"].rstrip("\n").format(**record["values"])
        for made, kept in group.get("pictures", {}).items():
            shutil.copyfile(folder / made, ROOT / kept)
    pictures = {kept: hash_file(ROOT / kept) for kept in group.get("pictures", {}).values()}
    seconds = round(time.perf_counter() - began)
    today = time.strftime("%Y-%m-%d")
    return {**record, "blocks": blocks, "pictures": pictures, "seconds": seconds, "made": today,
            "processor": describe_processor(),
            "code": code_digest(globs, group["commands"])}  # fmt: skip


def run(command: str, folder: Path) -> str:
    """Run a command, and return its standard output followed by its standard error.

    As in a shell, words such as `NAME=VALUE` before the command set environment variables.
    """
    words = shlex.split(command)
    settings = dict[str, str]()
    while "=" in words[0]:
        key, _, settings[key] = words.pop(0).partition("=")
    program, *words = words
    words = [word.replace("docs/images", str(ROOT / "docs/images")) for word in words]
    if program == "seqattn":
        called = [sys.executable, "-m", "seqattn", *words]
    elif program == "python":
        called = [sys.executable, str(ROOT / words[0]), *words[1:]]
    else:
        called = [program, *words]
    print(f"  {command}", flush=True)
    environment = {**os.environ, **settings, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(called, cwd=folder, env=environment, text=True, capture_output=True,
                          check=False)  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout + done.stderr


def hash_file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def problems(plan: dict[str, Any], record: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each difference between the plan, the record and the pages."""
    groups = plan["groups"]
    for name, group in groups.items():
        if name not in record:
            yield f"{name}: was never made; run python scripts/figures.py {name}"
            continue
        if record[name]["commands"] != group["commands"]:
            yield f"{name}: its commands have changed since it was made"
        for kept, digest in record[name]["pictures"].items():
            if hash_file(ROOT / kept) != digest:
                yield f"{kept}: is not the picture that was made for {name}"
    for path in PAGES:
        page, name = path.read_text(), str(path.relative_to(ROOT))
        current = page
        for key, group in groups.items():
            if key in record:
                current = with_figures(current, group, record[key], name)
        if current != page:
            yield f"{name}: has other figures than docs/figures.json"
        yield from without_commands(page, name, plan)


def without_commands(page: str, name: str, plan: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each picture or table of measured numbers in a page that has no command."""
    made = {
        kept for group in plan["groups"].values() for kept in group.get("pictures", {}).values()
    }
    made |= set(plan["made_elsewhere"])
    for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page):
        kept = str((ROOT / name).parent.joinpath(target).resolve().relative_to(ROOT))
        if kept not in made:
            yield f"{name}: no command makes {kept}"
    if name in plan["made_elsewhere"]:
        return
    outside = re.sub(r"<!-- (?:figures|table): .*?<!-- end of (?:figures|table) -->", "", page,
                     flags=re.DOTALL)  # fmt: skip
    for table in re.findall(r"(?:^\|.*\n)+", outside, flags=re.MULTILINE):
        heading = table.splitlines()[0]
        if re.search(r"\| *-?\d+\.\d+", table) and heading not in plan["not_measured"]:
            yield f"{name}: no command makes the table {heading}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help="groups of docs/figures.yaml (default: all)")
    parser.add_argument("--check", action="store_true", help="compare pages with the record")
    arguments = parser.parse_args()
    plan = expanded(yaml.safe_load(PLAN.read_text()))
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    if arguments.check:
        wrong = list(problems(plan, record))
        print("\n".join(wrong) or "Every figure in README.md and docs/ equals the recorded figure.")
        for name, group in plan["groups"].items():
            globs = [*plan["code"], *group.get("code", ())]
            if name in record and code_digest(globs, group["commands"]) != record[name]["code"]:
                made, seconds = record[name]["made"], record[name]["seconds"]
                print(f"stale: {name}, made {made}, is older than its code (python"
                      f" scripts/figures.py {name}, {seconds} s)")  # fmt: skip
        raise SystemExit(bool(wrong))
    for name in arguments.groups or plan["groups"]:
        print(name, flush=True)
        group = plan["groups"][name]
        made = make_group(name, group, [*plan["code"], *group.get("code", ())])
        # Read the record again, because another process may have changed it.
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        record[name] = made
        RECORD.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n")
        for path in PAGES:
            page = path.read_text()
            changed = with_figures(page, group, record[name], str(path.relative_to(ROOT)))
            if changed != page:
                path.write_text(changed)


if __name__ == "__main__":
    main()
