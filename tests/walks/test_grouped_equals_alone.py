"""Every config key that may differ within a comparison: each run must learn what it learns alone.

From several base configs, each key is changed to every other value that is found for it, one key at
a time. Base and variations are trained in one call with two seeds each, as `seqattn compare` does,
so every run joins whatever group would take it, and the base is the first of its group.
"""

from __future__ import annotations

import copy
import csv
import functools
import inspect
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from pydantic import ValidationError

from seqattn.config import Config, Logging, Section, all_keys, as_plain
from seqattn.config.keys import choices, field_variants
from seqattn.data import load_data
from seqattn.errors import SeqattnError
from seqattn.experiments import train_runs
from seqattn.experiments.prepare import check_fit
from seqattn.training import objective
from tests.grouped import (
    check_grouped_equals_alone,
    small_config,
    write_pairs,
    write_parquet,
    write_series,
)

Changes = dict[str, Any]
MAX_BASES = 1
"""Base configs in which the same key of the same section is changed to the same value."""
NEVER_VARIED = {"name", "seed", "compare", "plugins"}
"""Keys of which a comparison takes care itself. tests/plugins trains groups with plugins."""
TRACKED_ELSEWHERE = {f"logging.{key}" for key in Logging.model_fields} - {"logging.tensorboard"}
"""Keys of trackers that take seconds to start; tests/experiments/test_trackers.py has them."""
TRACKED_ELSEWHERE.add("training.start_from")  # tests/experiments/test_starting_point.py


@functools.cache
def files() -> dict[str, Path]:
    """Files of the same sequences in several forms; they last as long as the process."""
    home = Path(tempfile.mkdtemp(prefix="grouped-"))
    found = {
        "csv": home / "series.csv",
        "swapped": home / "swapped.csv",
        "other": home / "other.csv",
        "decimal": home / "decimal.csv",
        "dated": home / "dated.csv",
        "folder": home / "folder",
        "swapped_folder": home / "swapped-folder",
        "other_folder": home / "other-folder",
        "pairs": home / "pairs.tsv",
        "other_pairs": home / "other-pairs.tsv",
        "swapped_pairs": home / "swapped-pairs.tsv",
    }
    write_series(found["csv"])
    write_series(found["swapped"], "cab")
    write_series(found["other"], seed=6)
    text = found["csv"].read_text(encoding="utf-8")
    found["decimal"].write_text(text.replace(",", ";").replace(".", ","), encoding="utf-8")
    with found["csv"].open(encoding="utf-8") as plain, found["dated"].open("w") as dated:
        rows = csv.DictReader(plain)
        writer = csv.DictWriter(dated, rows.fieldnames or ())
        writer.writeheader()
        for row in rows:
            writer.writerow(row | {"time": f"{int(row['time']) + 1:02}.01.2024"})
    write_parquet(found["folder"], "abc")
    write_parquet(found["swapped_folder"], "cab")
    write_parquet(found["other_folder"], "abc", seed=6)
    write_pairs(found["pairs"])
    write_pairs(found["swapped_pairs"], swapped=True)
    write_pairs(found["other_pairs"], seed=6)
    return found


def bases() -> dict[str, Config]:
    """Configs that together have every section that a config can have."""
    series = {"kind": "file", "path": str(files()["csv"]), "group": "kind"}
    paths = {"n_train": 12, "n_validation": 6, "n_test": 5}
    features = {"source_features": ["a", "b"], "target_features": ["a", "c"]}
    contents: dict[str, dict[str, Any]] = {
        "squares": {},
        "variable length": {
            "data": {**paths, "variable_length": True},
            "model": {"cell": "lstm", "layers": 2, "dropout": 0.1,
                      "attention": {"score": "additive", "key_dim": 4}},
            "training": {
                "optimizer": "sgd", "momentum": 0.5, "clip_norm": 0.5, "learning_rate": 1.0,
                "learning_rate_schedule": {"kind": "cosine"},
                "teacher_forcing": {"schedule": "linear"},
                "early_stopping": {"patience": 1},
            },
        },
        "two files' features": {
            "data": {**series, **features, "source_length": 5},
            "training": {"learning_rate_schedule": {"kind": "step", "every": 1},
                         "teacher_forcing": {"schedule": "exponential"}},
        },
        "windows": {
            "data": {**series, "features": ["a", "b", "c"], "window": {"source": 3, "target": 2}},
            "model": {"cell": "rnn", "attention": {"score": "cosine",
                                                   "location": {"kind": "location_shift"}}},
        },
        "stream": {
            "data": {"kind": "file", "cache": "always", "path": str(files()["folder"]), **features,
                     "source_length": 5, "split": {"validation": 0.2, "test": 0.2}},
        },
        "transformer": {
            "data": {**paths, "kind": "copy", "length": 3, "min_length": 2},
            "model": {"kind": "transformer", "model_dim": 4, "heads": 2, "layers": 1,
                      "feedforward_dim": 3, "positions": "learned", "longest": 6},
            "training": {"teacher_forcing": {"probability": 1.0}},
        },
        "fast weights": {
            "data": {**paths, "kind": "polygons", "corners": 5, "min_corners": 4},
            "model": {"kind": "fast_weights"},
            "training": {"learning_rate_schedule": {"kind": "plateau", "patience": 1},
                         "teacher_forcing": {"schedule": "inverse_sigmoid"}},
        },
        "recall": {
            "data": {**paths, "kind": "recall", "pairs": 2, "min_pairs": 1},
            "model": {"attention": {"score": "scaled_dot", "normalizer": "hard",
                                    "estimator": "reinforce", "key_dim": 4}},
        },
        "sort": {
            "data": {**paths, "kind": "sort", "length": 4, "min_length": 2},
            "model": {"input_feeding": True,
                      "attention": {"heads": 2, "location": {"kind": "monotonic", "offset": 0.5}}},
        },
        "lag": {
            "data": {**paths, "kind": "lag", "length": 4, "lag": 3, "steps": 2},
            "model": {"attention": {"score": "general",
                                    "location": {"kind": "local", "window": 1}}},
        },
        "dates": {
            "data": {**paths, "kind": "dates"},
            "model": {"attention": {"score": "coverage"},
                      "embedding": {"dim": 3, "dropout": 0.1, "word_dropout": 0.1}},
            "training": {"batch_order": "by_length", "feedback": "sampled",
                         "label_smoothing": 0.1},
        },
        "numbers": {
            "data": {**paths, "kind": "numbers"},
            "model": {"kind": "transformer", "model_dim": 4, "heads": 2, "layers": 1,
                      "feedforward_dim": 3, "embedding": {"tied": True}},
            "training": {"teacher_forcing": {"probability": 1.0}, "monitor": "exact_match"},
        },
        "subwords": {
            "data": {"kind": "text", "path": str(files()["pairs"]),
                     "source": {"unit": "bpe", "max_size": 24}, "target": {"unit": "bpe"},
                     "split": {"validation": 0.2, "test": 0.2}},
            "model": {"attention": {"score": "linear"}},
        },
        "grammar": {
            "data": {**paths, "kind": "grammar"},
            "model": {"kind": "fast_weights", "embedding": {"dim": 3}},
        },
    }  # fmt: skip
    return {name: small_config(**content) for name, content in contents.items()}


def manual_changes(base: Config, path: str) -> list[Changes]:
    """Changes of keys whose second value does not follow from their type: names of columns and
    files, and what goes only with another key."""
    named = files()
    of_folder, of_text = getattr(base.data, "cache", "") == "always", base.data.kind == "text"
    suffix = "_folder" if of_folder else "_pairs" if of_text else ""
    swapped, other = f"swapped{suffix}", f"other{suffix}"
    parts = {"data.validation_path": str(named[other]), "data.test_path": str(named[swapped])}
    table: dict[str, list[Changes]] = {
        "data.path": [{path: str(named[swapped])}],
        "data.validation_path": [parts],
        "data.test_path": [parts],
        "data.delimiter": [{path: ","}],
        "data.decimal": [{path: ",", "data.delimiter": ";", "data.path": str(named["decimal"])}],
        "data.series": [{path: "series"}],
        "data.time": [{path: "time"}],
        "data.group": [{path: "kind" if of_text else "series"}],
        "data.alignment": [
            {path: "links", "data.source.unit": "word", "data.target.unit": "word"}
        ],
        "data.source.column": [{path: "target", "data.target.column": "source"}],
        "data.split.by": [{path: "group", "data.group": "kind"}],
        "data.symbols": [{path: 50, "data.noise": 0.0}],
        "data.comment": [{path: "#"}],
        "data.encoding": [{path: "latin-1"}],
        "data.header": [{path: True}],
        "data.ignore": [{path: ["time"]}],
        "data.na_values": [{path: ["-999"]}],
        "data.one_hot": [{path: ["kind"], "data.group": None}],
        "data.time_format": [{path: "%d.%m.%Y", "data.path": str(named["dated"])}],
        "data.features": [{path: ["c", "a", "b"]}, {path: ["a", "c"]}],
        "data.source_features": [{path: ["b", "a"]}, {path: ["b", "c"]}, {path: ["a"]}],
        "data.target_features": [{path: ["c", "a"]}, {path: ["b", "c"]}, {path: ["c"]}],
        "data.cache": [{path: "never"}],
        "data.units": [{path: {"a": "degC"}}],
        "data.normalize": [{path: "none", "data.scaling": "none"}],
        "data.target_length": [{path: 2, "data.source_length": None}],
        "data.window": [{path: {"source": 3, "target": 2}, "data.source_length": None}],
        "model.attention.normalizer": [{path: "hard", "model.attention.estimator": "reinforce"}],
        "model.skip": [
            {path: "linear", "data.min_length": None}, {path: "linear", "data.min_corners": None},
        ],
        "model.skip_map": [
            {path: word, "model.skip": "linear", cut: None}
            for word in ("finetuned", "learned") for cut in ("data.min_length", "data.min_corners")
        ],
        "model.attention.alpha": [{path: 1.3, "model.attention.normalizer": "entmax"}],
        "model.max_distance": [{path: 1, "model.positions": "relative"}],
        "model.positions": [{path: "none", "model.longest": None}],
        "training.batch_type": [{path: "tokens", "training.batch_size": 80}],
        "training.momentum": [{path: 0.5, "training.optimizer": "sgd"}],
    }  # fmt: skip
    return table.get(path, [])


def other_values(section: Section, key: str) -> dict[str, list[Any]]:
    """Other values of a key's type by what they are: each word, each kind of section, a number. Of
    each list the first legal one is taken."""
    field, value = type(section).model_fields[key], getattr(section, key)
    annotation = field.annotation
    variants, words = field_variants(type(section), key), choices(field)
    found: dict[str, list[Any]] = {}
    if type(None) in get_args(annotation) and value is not None:
        found["null"] = [None]
    if variants and (value is None or len(variants) > 1):
        before = {} if value is None else as_plain(value)
        for tag, variant in variants.items():
            if type(value) is not variant:
                fields = variant.model_fields
                kept = {name: kept for name, kept in before.items() if name in fields}
                tagged = {name: tag for name in ("kind", "score", "schedule") if name in fields}
                found[tag] = [{**kept, **tagged}, tagged]
    elif variants:
        pass  # its keys are changed one by one
    elif words:
        found |= {word: [word] for word in words if word != value}
    elif isinstance(value, bool):
        found["bool"] = [not value]
    elif isinstance(value, int):
        found["number"] = [value + 1, value * 2, value // 2, value - 1]
    elif isinstance(value, float):
        found["number"] = [value / 2 or 0.05, value + 0.1, 0.001]
    elif value is None:
        found["number"] = [2, 3, 1, 0.05]
    return found


def sections_of(section: Section, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Section, str]]:
    """Dotted path, section and key of everything in a config."""
    for key in type(section).model_fields:
        yield ".".join((*path, key)), section, key
        value = getattr(section, key)
        if isinstance(value, Section):
            yield from sections_of(value, (*path, key))


def changed(base: Config, changes: Mapping[str, Any]) -> Config | None:
    """The base config with some dotted keys changed; None where that is no config."""
    content = copy.deepcopy(as_plain(base))
    for path, value in changes.items():
        *above, key = path.split(".")
        section = content
        for name in above:
            section = section[name] if isinstance(section, dict) else {}
        if not isinstance(section, dict):
            return None
        section[key] = value
    try:
        config = Config.model_validate(content)
        check_fit(config, load_data(config.data))
    except (ValidationError, SeqattnError):
        return None
    return None if config == base else config


def declared_in(section: type[Section], key: str) -> str:
    """The section class that declares a key: what its subclasses inherit is one key."""
    owner = next(one for one in section.__mro__ if key in inspect.get_annotations(one))
    return f"{owner.__name__}.{key}"


@functools.cache
def variations() -> tuple[dict[str, dict[str, Config]], set[str]]:
    """For each base the config of every variation by name, and the keys that were varied."""
    found: dict[str, dict[str, Config]] = {}
    used = Counter[tuple[str, str]]()
    for name, base in bases().items():
        load_data(base.data)
        configs = found[name] = {"base": base}
        for path, section, key in sections_of(base):
            if path in NEVER_VARIED | TRACKED_ELSEWHERE:
                continue
            declared = declared_in(type(section), key)
            ways = {str(changes): [changes] for changes in manual_changes(base, path)}
            for what, values in other_values(section, key).items():
                ways[what] = [{path: value} for value in values]
            for what, candidates in ways.items():
                if used[declared, what] == MAX_BASES:
                    continue
                legal = (changed(base, changes) for changes in candidates)
                config = next(filter(None, legal), None)
                if config is not None:
                    used[declared, what] += 1
                    configs[f"{len(configs)}-{path}"] = config
    return found, {declared for declared, _ in used}


def must_be_varied() -> set[str]:
    """Keys that can have a second value: neither the tag of a variant nor a plain section."""
    wanted = set[str]()
    for path, section, _ in all_keys():
        key = path[-1]
        field = section.model_fields[key]
        variants = field_variants(section, key)
        plain_section = len(variants) == 1 and type(None) not in get_args(field.annotation)
        tag = len(choices(field)) == 1
        is_varied = path[0] not in NEVER_VARIED and ".".join(path) not in TRACKED_ELSEWHERE
        if is_varied and not (plain_section or tag):
            wanted.add(declared_in(section, key))
    return wanted


def test_every_key_has_a_second_value() -> None:
    """A new key gets one: from its type, from `manual_changes`, or by a base config that has it."""
    _, varied = variations()
    assert sorted(must_be_varied() - varied) == []


@pytest.mark.filterwarnings("ignore")  # of torch about its own compiler
@pytest.mark.parametrize("name", list(bases()))
def test_each_run_of_a_comparison_is_the_run_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "BACKEND", "aot_eager")  # a C++ compiler takes half a minute
    monkeypatch.setattr(train_runs, "collect_environment", lambda *_: {})  # runs git
    monkeypatch.setattr(os, "fsync", lambda _: None)  # waits for the disk, of hundreds of runs
    torch.compiler.reset()
    configs = variations()[0][name]
    assert check_grouped_equals_alone(configs, tmp_path) == []
