"""Find retired words in names, and functions or classes with the same name in several files.

`python scripts/check_names.py` prints a line for each finding and the number of findings in each
folder. The exit code is 1 if there are findings. The script checks two rules:

- No function, class, parameter, attribute, variable or module may have a retired name.
  scripts/retired_names.toml lists the retired words with their replacements. The name of a test is
  a sentence, so only the words `told` and `said` are retired in names of tests.
- A search for `def name` or `class name` must find only one place. This rule applies to public
  names at module level in seqattn/ and scripts/, to private functions and classes with equal code,
  and to the names of tests.

`--all` adds findings that do not change the exit code: private names and test helpers that several
files define.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "scripts" / "retired_names.toml"
FOLDERS = ("seqattn", "scripts", "tests")
SENTENCE_WORDS = {"told", "said"}  # other retired words, such as "whose", may be in a sentence

# Exceptions "path:name" for config keys, flags and file formats. Each exception needs a reason.
ALLOWED: set[str] = set()
SHARED = {"main"}  # names that several files may define: the entry point of a program
ADVISORY = ("private", "helpers")  # kinds of findings that do not change the exit code

Trees = Mapping[str, ast.Module]
Definition = tuple[str, ast.FunctionDef | ast.ClassDef]


class NameFinding(NamedTuple):
    path: str
    line: int
    name: str
    reason: str
    replacement: str
    kind: str  # the column of the finding in the summary

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.name}: {self.reason} (try: {self.replacement})"


@dataclass(frozen=True)
class RetiredNames:
    """The tables of retired_names.toml, which map retired words or names to their replacements."""

    words: Mapping[str, str]
    prefixes: Mapping[str, str]
    terms: Mapping[str, str]
    names: Mapping[str, str]
    within: Mapping[str, Mapping[str, str]]
    modules: Mapping[str, str]

    @classmethod
    def from_toml(cls, text: str) -> RetiredNames:
        return cls(**tomllib.loads(text))

    def of_identifier(self, path: str, name: str) -> tuple[str, str] | None:
        """Return the reason why an identifier is retired, and its replacement.

        The result is None if the identifier is not retired.
        """
        if f"{path}:{name}" in ALLOWED:
            return None
        if path.startswith("tests/") and name.startswith("test_"):
            return self._of_words(set(name_parts(name)) & SENTENCE_WORDS)
        bare = name.lstrip("_")
        for folder in sorted(self.within, key=len, reverse=True):
            if path.startswith(folder) and bare in self.within[folder]:
                return f"retired in {folder}", self.within[folder][bare]
        if bare in self.names:
            return "retired name", self.names[bare]
        for term in self.terms:
            bare = re.sub(f"(?i){term}", "", bare)
        for prefix, replacement in self.prefixes.items():
            if bare.startswith(f"{prefix}_") or bare == prefix.upper():
                return f"retired prefix {prefix!r}", name.replace(prefix, replacement, 1)
        return self._of_words(name_parts(bare))

    def of_module(self, name: str) -> tuple[str, str] | None:
        """Return the reason why the name of a file or folder is retired, and its replacement.

        The result is None if the name is not retired.
        """
        bare = name.removeprefix("test_")
        if bare in self.modules:
            return "retired module name", self.modules[bare]
        return self._of_words(name_parts(bare))

    def _of_words(self, parts: Iterable[str]) -> tuple[str, str] | None:
        for part in parts:
            if part in self.words:
                return f"retired word {part!r}", self.words[part]
        return None


def name_parts(name: str) -> list[str]:
    """Return the words of a name in snake_case or CamelCase, in lower case."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every identifier that a module defines, with its line.

    Identifiers that the module only reads are left out.
    """
    for node in ast.walk(tree):
        match node:
            case (
                ast.FunctionDef(name=str(name))
                | ast.AsyncFunctionDef(name=str(name))
                | ast.ClassDef(name=str(name))
                | ast.arg(arg=str(name))
                | ast.Name(id=str(name), ctx=ast.Store())
                | ast.Attribute(attr=str(name), ctx=ast.Store())
                | ast.alias(asname=str(name))
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                yield name, node.lineno


def retired(trees: Trees, rules: RetiredNames) -> Iterator[NameFinding]:
    """Yield one finding for each retired name in a file, at the first line with the name."""
    for path, tree in trees.items():
        file = Path(path)
        module = file.parent.name if file.stem == "__init__" else file.stem
        if why := rules.of_module(module):
            yield NameFinding(path, 1, module, *why, "retired")
        lines = defaultdict[str, list[int]](list)
        for name, line in identifiers(tree):
            lines[name].append(line)
        for name, places in lines.items():
            if why := rules.of_identifier(path, name):
                reason = why[0] + (f", {len(places)} times" if len(places) > 1 else "")
                kind = "test names" if name.startswith("test_") else "retired"
                yield NameFinding(path, min(places), name, reason, why[1], kind)


def module_level(body: Sequence[ast.stmt]) -> Iterator[ast.FunctionDef | ast.ClassDef]:
    """Yield the functions and classes at the top level of a module.

    If the branches of an `if` or `try` define a name twice, the function yields only the first
    definition.
    """
    found: dict[str, ast.FunctionDef | ast.ClassDef] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.setdefault(node.name, node)
        elif isinstance(node, ast.If | ast.Try):
            for inner in module_level([*node.body, *node.orelse]):
                found.setdefault(inner.name, inner)
    yield from found.values()


def shared(trees: Trees) -> Iterator[NameFinding]:
    """Yield a finding for each function or class whose name another file also defines.

    A definition that alone has the lowest rank keeps the name, and gets no finding; see `rank`.
    """
    places = defaultdict[tuple[bool, str], list[Definition]](list)
    for path, tree in trees.items():
        for node in module_level(tree.body):
            if node.name not in SHARED:
                places[path.startswith("tests/"), node.name].append((path, node))
    for found in places.values():
        ranks = [rank(path) for path, _ in found]
        for here in found:
            if len(found) > 1 and (rank(here[0]) > min(ranks) or ranks.count(min(ranks)) > 1):
                yield shared_finding(here, [other for other in found if other is not here])


def rank(path: str) -> int:
    """Return the rank of a file. If several files define a name, the file with the lowest rank
    keeps it.

    From low to high, the ranks are the public API, the rest of the package, the commands, and both
    tests and scripts.
    """
    starts = ("seqattn/experiments/api", "seqattn/cli/", "seqattn/", "tests/", "scripts/")
    order = (0, 2, 1, 3, 3)
    return next(k for start, k in zip(starts, order, strict=True) if path.startswith(start))


def shared_finding(here: Definition, others: Sequence[Definition]) -> NameFinding:
    path, node = here
    equal = [other for other in others if ast.dump(node) == ast.dump(other[1])]
    if path.startswith("tests/"):
        kind = "shared" if node.name.startswith("test_") else "helpers"
    else:
        kind = "private" if node.name.startswith("_") and not equal else "shared"
    replacement = "a name that says which"
    if equal:
        replacement = "one definition, imported"
    elif path.startswith("seqattn/cli/") and isinstance(node, ast.FunctionDef):
        replacement = f"{node.name}_command"
    where = ", ".join(f"{other}:{definition.lineno}" for other, definition in equal or others)
    reason = f"{'equal code' if equal else 'also'} in {where}"
    return NameFinding(path, node.lineno, node.name, reason, replacement, kind)


def summary(findings: Sequence[NameFinding]) -> str:
    """Return a table of counts with a row for each folder and a column for each kind of finding."""
    kinds = [kind for kind in ("retired", "shared", "test names", *ADVISORY)
             if any(finding.kind == kind for finding in findings)]  # fmt: skip
    counts = Counter((folder_of(finding.path), finding.kind) for finding in findings)
    rows = [("folder", *kinds)]
    for folder in [*sorted({folder for folder, _ in counts}), ""]:
        each = [
            sum(count for key, count in counts.items() if key[1] == kind and folder in (key[0], ""))
            for kind in kinds
        ]
        rows.append((folder or "all", *map(str, each)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def folder_of(path: str) -> str:
    return "/".join(Path(path).parent.parts[:2])


def names_check(root: Path, *, advisory: bool = False) -> list[NameFinding]:
    """Return the findings in the Python files of a checkout.

    Args:
        root: the folder of the checkout.
        advisory: whether to include the findings that do not change the exit code.
    """
    rules = RetiredNames.from_toml(RULES.read_text())
    files = [file for top in FOLDERS for file in sorted((root / top).rglob("*.py"))
             if "node_modules" not in file.parts]  # fmt: skip
    trees = {file.relative_to(root).as_posix(): ast.parse(file.read_text()) for file in files}
    findings = [*retired(trees, rules), *shared(trees)]
    failing = [f for f in findings if advisory or f.kind not in ADVISORY]
    return sorted(failing, key=lambda finding: (folder_of(finding.path), *finding))


def main(arguments: Sequence[str]) -> int:
    findings = names_check(ROOT, advisory="--all" in arguments)
    for finding in findings:
        print(finding)
    if findings:
        print(f"\n{summary(findings)}")
    return int(any(finding.kind not in ADVISORY for finding in findings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
