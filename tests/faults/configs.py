"""Configs with misspelt keys, wrong types, and YAML that no config needs."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.faults import Tally
from tests.faults.memory import bounded_memory


def misspellings(key: str) -> list[str]:
    """Six ways to get a key wrong: a letter lost in the middle, one doubled, two swapped, one that
    is its neighbour on the keyboard, the underscore gone (or a capital), a plural."""
    rows = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
    middle = len(key) // 2
    neighbour = key[middle]
    for row in rows:
        if neighbour in row:
            at = row.index(neighbour)
            neighbour = row[at + 1] if at + 1 < len(row) else row[at - 1]
            break
    return [
        key[:middle] + key[middle + 1 :],
        key[:middle] + key[middle] + key[middle:],
        key[: middle - 1] + key[middle] + key[middle - 1] + key[middle + 1 :],
        key[:middle] + neighbour + key[middle + 1 :],
        key.replace("_", "") if "_" in key else key.capitalize(),
        key[:-1] if key.endswith("s") else key + "s",
    ]


def _sections() -> Iterator[tuple[tuple[str, ...], Any, dict[str, Any]]]:
    """Every key there is, with its section's model and a config that reaches the section; once,
    where several sections have one such as theirs."""
    from seqattn.config import all_keys

    seen = set[str]()
    for path, section, _ in all_keys():
        content: dict[str, Any] = {}
        inner = content
        for part in path[:-1]:
            inner[part] = {}
            inner = inner[part]
        for name, field in section.model_fields.items():
            # What a section is called by must be said, or another section is meant.
            if name in ("kind", "score", "normalizer", "schedule") and name != path[-1]:
                inner[name] = field.default
        if (key := repr((path, content))) not in seen:
            seen.add(key)
            yield path, section, content


def misspelt(every: int = 1) -> Tally:
    """The right key must be the first suggestion. Counted as a failure below a rate of 95%."""
    from seqattn.config import resolve
    from seqattn.errors import ConfigError

    tally, right, missed = Tally(), 0, list[str]()
    total = 0
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "c.yaml"
        for path, section, content in [*_sections()][::every]:
            for wrong in dict.fromkeys(misspellings(path[-1])):
                if wrong in section.model_fields or wrong == path[-1] or not wrong:
                    continue
                whole = json.loads(json.dumps(content))
                inner = whole
                for part in path[:-1]:
                    inner = inner[part]
                inner[wrong] = 1
                file.write_text(json.dumps(whole))
                total += 1
                with tally.case(".".join((*path[:-1], wrong))):
                    try:
                        resolve(file)
                    except ConfigError as error:
                        message = str(error)
                    else:
                        raise AssertionError("it was taken")
                if f"Did you mean {'.'.join(path)}?" in message:
                    right += 1
                else:
                    missed.append(".".join((*path[:-1], wrong)))
    with tally.case("the rate"):
        assert right / total >= 0.95, f"{right} of {total}; missed {missed[:20]}"
    tally.remarks.append(
        f"The first suggestion was the right key for {right:,} of {total:,} misspelt keys"
        f" ({right / total:.1%}). The check of this rate counts as one more attempt."
    )
    return tally


WRONG: tuple[Any, ...] = (
    "text", "", "1", "1e-4", "off", [], [1], {}, {"kind": "x"}, {"a": {"b": 1}}, True, None, 0, -1,
    1.5, -1.5, math.nan, math.inf, -math.inf, 2**31, 2**63, 2**64, -(2**63), 1e308, 5e-324,
    "\x00", "\x1b[31m", "a" * 100_000,
)  # fmt: skip


def wrong_types(every: int = 1) -> Tally:
    """Every field against every wrong value: taken where it is right after all, else refused by
    file, line and path, and nothing else."""
    from seqattn.config import resolve
    from seqattn.errors import ConfigError

    tally = Tally()
    taken = 0
    huge = "9" * 5000
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "c.yaml"
        for path, _, content in [*_sections()][::every]:
            for value in (*WRONG, huge):
                whole = json.loads(json.dumps(content))
                inner = whole
                for part in path[:-1]:
                    inner = inner[part]
                inner[path[-1]] = value
                text = json.dumps(whole).replace("NaN", ".nan").replace("Infinity", ".inf")
                if value is huge:
                    text = text.replace(f'"{huge}"', huge)
                file.write_text(text)
                with tally.case(f"{'.'.join(path)}: {str(value)[:30]}"):
                    try:
                        resolve(file)
                        taken += 1
                    except ConfigError as error:
                        assert len(str(error)) < 20_000, "the error repeats what was given"
                        assert str(file) in str(error), str(error)[:300]
                    except Exception as error:
                        raise AssertionError(f"{type(error).__name__}: {error}") from None
    tally.remarks.append(
        f"Of the {tally.tried:,} values, {taken:,} were valid for their key, and seqattn accepted them."
    )
    return tally


def _bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, levels)]
    return "\n".join(lines)


MAX_MIB = 300
"""The file of 100 MB is held once here and once by its reader."""
HUGE = b"as many as the name says"
YAML: tuple[tuple[str, str | bytes], ...] = (
    *((f"tag {tag}", f"seed: {tag} 1") for tag in (
        "!!python/object/apply:os.system", "!!python/name:os.system", "!!python/module:os", "!!int",
        "!!binary", "!x", "!!python/object/new:type", "!<tag:yaml.org,2002:python/none>", "!!set",
        "!!omap", "!!timestamp", "!!float",
    )),
    ("anchor", "data: &d {n_train: 5}"), ("alias", "data: *d"), ("merge", "data: {<<: {n_train: 5}}"),
    ("anchor and alias", "data: &d {n_train: 5}\nmodel: *d"), ("bomb of 9", _bomb(9)),
    ("bomb of 20", _bomb(20)), ("recursion", "data: &d [*d]"),
    ("20,000 flow lists", "data: " + "[" * 20_000 + "]" * 20_000),
    ("20,000 flow maps", "{a: " * 20_000 + "1" + "}" * 20_000),
    ("20,000 block levels", "\n".join(" " * k + f"a{k}:" for k in range(20_000))),
    ("20,000 keys", "\n".join(f"k{k}: 1" for k in range(20_000))),
    ("a key twice", "seed: 1\nseed: 2"), ("a key twice, deep", "data: {n_train: 1, n_train: 2}"),
    ("a key twice, quoted", 'seed: 1\n"seed": 2'), ("a list as key", "[a]: 1"), ("a map as key", "{a: 1}: 1"),
    ("a null key", "~: 1"), ("a number as key", "1: 1"), ("a yes as key", "yes: 1"),
    *((f"YAML 1.1: {value}", f"training: {{learning_rate: {value}}}") for value in (
        "off", "on", "yes", "no", "012", "0o12", "12:30", "1:2:3", "0b11", "0x1F", "1_000", "+1",
        "1.", ".5.", "1e", "e4", "2001-01-01", "~", "NULL", "<", "=",
    )),
    ("two documents", "seed: 1\n---\nseed: 2"), ("a list", "- 1\n- 2"), ("a word", "hello"),
    ("a number", "12"), ("nothing but a comment", "# nothing"), ("tabs", "data:\n\tn_train: 3"),
    ("a NUL", b"seed: \x00"), ("Latin-1", b"name: \xe9"), ("UTF-16", "seed: 1".encode("utf-16")),
    ("UTF-32", "seed: 1".encode("utf-32")), ("a surrogate", b"name: \xed\xa0\x80"),
    ("a bell", b"name: \x07"), ("a directive", "%YAML 1.1\n---\nseed: 1"),
    ("a tag directive", "%TAG ! tag:x,2000:\n---\nseed: !a 1"), ("100 MB", HUGE),
    ("unclosed", "data: {n_train: 5"), ("a stray bracket", "data: ]"), ("backtick", "seed: `1`"),
    ("at", "seed: @1"), ("bad indentation", "data:\n  n_train: 5\n n_test: 3"),
)  # fmt: skip
RIGHT = {
    "nothing but a comment", "a directive", "YAML 1.1: +1", "YAML 1.1: 0o12", "YAML 1.1: 1.",
    "YAML 1.1: 0x1F",
}  # fmt: skip


def yaml() -> Tally:
    """Tags, aliases, bombs, nesting, doubled keys and YAML 1.1's traps: refused with a reason, in a
    second, and with nothing made of them."""
    from seqattn.config import resolve
    from seqattn.errors import ConfigError

    tally = Tally()
    with tempfile.TemporaryDirectory() as place, bounded_memory(tally, MAX_MIB):
        file = Path(place) / "c.yaml"
        for what, given in YAML:
            content = b"#" * 100_000_000 if given is HUGE else given
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
            with tally.case(what):
                began = time.perf_counter()
                try:
                    resolve(file)
                    assert what in RIGHT, "it was taken"
                except ConfigError as error:
                    assert len(str(error)) < 100_000, "the error repeats the file"
                except Exception as error:
                    raise AssertionError(f"{type(error).__name__}: {str(error)[:200]}") from None
                took = time.perf_counter() - began
                assert took < 10, f"it took {took:.1f} s"
    return tally
