"""The plan of a comparison: the variants of one config, and the seeds of each variant."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from pydantic import ValidationError

from seqattn.config import Compare, ComparedMeasure, Config, Draft, Generated, Override, as_plain
from seqattn.config.draft import origin_at
from seqattn.config.mistakes import count_mistakes, describe_error
from seqattn.config.reading import read_yaml_list
from seqattn.errors import ConfigError

NOT_VARIED = {"name": "names the folder and cannot vary",
              "plugins": "cannot vary; list the plugins of all variants in plugins",
              "seed": "cannot vary; every variant has the same seeds"}  # fmt: skip
MAX_RUNS = 100_000
Grid: TypeAlias = str | Sequence[str] | Mapping[str, Sequence[Any]]
"""The keys that vary: strings "PATH=A,B,..." or "PATH=[A,B,...]", or a mapping from dotted path to
values."""
PARTS = ("train", "validation", "test")
DATA_SEEDS = frozenset(f"data.{part}_seed" for part in PARTS)
DATA_SET = "data set"
"""The sweep key of a crossed design (`compare.variance`), which is no key of a config."""
FILES = frozenset({
    "comparison.json", "variants.csv", "pairs.csv", "seeds.csv", "comparison.md", "comparison.png",
    "curves.png", "attention.png", "along.png", "report.html",
})  # fmt: skip
"""The names of the files in the folder of a comparison. A variant cannot have any of these
names."""


@dataclass(frozen=True)
class VariantConfig:
    """A variant of a comparison.

    Attributes:
        name: the name of the variant's folder, which tables also show.
        config: the config, with the seed of the first run.
        series: the name without the value of the sweep key; the whole name if there is no sweep.
        at: the value of the sweep key (`compare.along`); None if there is no sweep.
    """

    name: str
    config: Config
    series: str = ""
    at: float | None = None

    def as_plain(self) -> dict[str, Any]:
        """Return the plain data of the config without its name."""
        return {key: value for key, value in as_plain(self.config).items() if key != "name"}


@dataclass(frozen=True)
class Questions:
    """What a comparison asks about its variants; see the keys of the same names of `Compare`."""

    measures: tuple[ComparedMeasure, ...] = ("loss",)
    margin: float | None = None
    power: float | None = None


ONLY_LOSS = Questions()
"""The default: which variants have a lower test loss."""


@dataclass(frozen=True)
class ComparisonPlan:
    """The variants and seeds of a comparison.

    Attributes:
        name: the name of the comparison's folder.
        variants: two or more variants with different names and configs.
        seeds: two or more seeds. Each variant is trained with all these seeds.
        along: the sweep key; "" if there is no sweep; `DATA_SET` in a crossed design.
        resample_data: whether each seed draws new generated data; False if all data are files.
        questions: what is tested.
    """

    name: str
    variants: tuple[VariantConfig, ...]
    seeds: range
    along: str = ""
    resample_data: bool = False
    questions: Questions = ONLY_LOSS

    def config_of(self, variant: VariantConfig, seed: int) -> Config:
        """Return the config with which a variant is trained with the given seed."""
        config = variant.config.model_copy(update={"seed": seed})
        return resample_data_seeds(config) if self.resample_data else config

    def as_plain(self) -> dict[str, Any]:
        """Return JSON-serializable data that identify the comparison, without the seed count."""
        return {
            "variants": {variant.name: variant.as_plain() for variant in self.variants},
            "resample_data": self.resample_data,
        }


def resample_data_seeds(config: Config) -> Config:
    """Replace each data seed of a config with a seed that is derived from this data seed and the
    seed of the run. If the data are files, return the config unchanged."""
    if not isinstance(config.data, Generated):
        return config
    seeds = {
        f"{part}_seed": derive_data_seed(getattr(config.data, f"{part}_seed"), config.seed, part)
        for part in PARTS
    }
    return config.model_copy(update={"data": config.data.model_copy(update=seeds)})


def derive_data_seed(base: int, seed: int, part: str) -> int:
    """Derive the seed with which one run generates one part of its data.

    The result is the first 32-bit word of NumPy's SeedSequence([base, seed]), with the lowest two
    bits replaced by the number of the part (0 for train, 1 for validation, 2 for test). Two parts
    therefore never have the same seed.

    Args:
        base: the seed of the part in the config.
        seed: the seed of the run.
        part: the name of the part, one of `PARTS`.
    """
    (word,) = np.random.SeedSequence([base, seed]).generate_state(1)
    return int(word) // 4 * 4 + PARTS.index(part)


def plan_comparison(
    source: Path | Mapping[str, Any] | Draft,
    overrides: Sequence[Override] = (),
    vary: Grid = (),
    *,
    along: Grid | None = None,
    seeds: int | None = None,
    resample_data: bool | None = None,
    questions: Mapping[str, Any] = MappingProxyType({}),
) -> ComparisonPlan:
    """Read a config, and plan the comparison that it describes. The arguments after `source`
    replace values in the config.

    Args:
        source: the config file, or a mapping with the same keys. A draft already contains its
            overrides; a pipe can be read only once.
        overrides: changes that apply to all variants; see `Override`.
        vary: the keys that vary, with their values; see `Grid`. Every combination of values is a
            variant. If `vary` is empty, the variants are those of the config.
        along: the key of the sweep, with its numbers; None for the sweep in the config.
        seeds: the number of seeds; None for the number in the config.
        resample_data: whether each seed draws new data; None for the value in the config.
        questions: the values of `measures`, `margin`, `power` and `variance`; None, or no value,
            for the values in the config.

    Raises:
        ConfigError: if there are mistakes; the error lists the mistakes of all variants.
    """
    draft = Draft.read(source, overrides)
    draft.load_plugins()
    compare = _read_section(draft, {**questions, "resample_data": resample_data})
    arms, sweep = _plan_variants(draft.name, compare, vary, along)
    if compare.variance is not None:
        arms = _arms_to_cross(draft.name, arms, along)
    count = compare.seeds if seeds is None else seeds
    _check_size(draft.name, len(arms), count, compare.variance)
    variants, mistakes = _resolve_variants(draft, arms)
    arguments = {"along": along, "seeds": seeds, "resample_data": resample_data, **questions}
    replaced = ["vary", "variants"] if vary else []
    replaced += [key for key, value in arguments.items() if value is not None]
    mistakes += _check_overrides(draft, replaced, arms)
    generated = [each.config.data for each in variants if isinstance(each.config.data, Generated)]
    resampled = compare.resample_data
    mistakes += _check_variants(variants, [arm.name for arm in arms])
    mistakes += _check_data_seeds(generated) if resampled else []
    if resample_data and not generated:
        mistakes.append("--resample-data: requires generated data, but the data are files.")
    if mistakes:
        unique = list(dict.fromkeys(mistakes))
        raise ConfigError(f"{draft.name}: {count_mistakes(len(unique))}.", unique)
    first = variants[0].config
    if compare.variance is not None:
        variants, sweep, resampled = _cross(variants, compare.variance), DATA_SET, False
    seeds_of_each = range(first.seed, first.seed + count)
    return ComparisonPlan(
        first.name, tuple(variants), seeds_of_each, sweep, resampled and bool(generated),
        Questions(tuple(compare.measures), compare.margin, compare.power),
    )  # fmt: skip


def _arms_to_cross(path: str, arms: list[_VariantDraft], along: Grid | None) -> list[_VariantDraft]:
    """Return the variants of a crossed design: the config itself if it has no variants.

    Args:
        path: the path of the config, for messages.
        arms: the variants of the config.
        along: see `plan_comparison`.

    Raises:
        ConfigError: if there is a sweep.
    """
    if along is not None:
        raise ConfigError(
            "--along: cannot be combined with --variance, whose axis is the data set."
        )
    return arms or [_VariantDraft("", {}, path, "", None)]


def _cross(variants: Sequence[VariantConfig], sets: int) -> list[VariantConfig]:
    """Return each variant with each of the data sets 1, 2, ... Data set d is that of the d-th seed
    in a comparison that draws new data for each seed.

    Raises:
        ConfigError: if the data of a variant are files.
    """
    found = list[VariantConfig]()
    for variant in variants:
        if not isinstance(variant.config.data, Generated):
            raise ConfigError("--variance: requires generated data, but the data are files.")
        for d in range(sets):
            seed = variant.config.seed
            drawn = resample_data_seeds(variant.config.model_copy(update={"seed": seed + d}))
            name = "_".join(filter(None, [variant.name, f"data-{d + 1}"]))
            config = drawn.model_copy(update={"seed": seed})
            found.append(VariantConfig(name, config, variant.name, float(d + 1)))
    return found


def _resolve_variants(
    draft: Draft, arms: Sequence[_VariantDraft]
) -> tuple[list[VariantConfig], list[str]]:
    """Return the variants whose config is valid, and the mistakes of the others."""
    variants, mistakes = list[VariantConfig](), list[str]()
    for arm in arms:
        mistakes += [f"{arm.origin}: {key} {NOT_VARIED[key]}."
                     for key in arm.changes if key in NOT_VARIED]  # fmt: skip
        try:
            config = draft.changed(arm.changes, arm.origin).resolve().config
            variants.append(VariantConfig(arm.name, config, arm.series, arm.at))
        except ConfigError as error:
            place = draft.places.get(("compare", "variants", arm.name))
            mistakes += [mistake if place is None else f"{place}: {mistake}"
                         for mistake in error.mistakes or [str(error)]]  # fmt: skip
    return variants, mistakes


def _check_size(name: str, variants: int, seeds: int, sets: int | None) -> None:
    """Check the number of runs of a comparison.

    Args:
        name: the name of the config, for messages.
        variants, seeds: the numbers of variants and of seeds.
        sets: the number of data sets of a crossed design; None without one.

    Raises:
        ConfigError: if there are too few variants or seeds, or too many runs.
    """
    variants *= sets or 1
    if variants < 2:
        raise ConfigError(
            f"{name}: a comparison needs two variants or more, got {variants}. Give --vary"
            " PATH=A,B,... or a compare: section."
        )
    if seeds < 2:
        raise ConfigError(
            f"--seeds {seeds}: one seed cannot be compared with anything; give 2 or more (with"
            " fewer than 6 no difference can be shown)."
        )
    if seeds * variants > MAX_RUNS:
        raise ConfigError(
            f"{name}: {variants} variants of {seeds} seeds are {seeds * variants:,} runs; at most"
            f" {MAX_RUNS:,} go into one comparison."
        )


def _check_data_seeds(generated: Sequence[Generated]) -> list[str]:
    """Return a mistake for each part of the data whose seed differs between variants, although each
    seed draws new data."""
    return [
        f"variants differ in data.{part}_seed, but each seed draws new data"
        " (compare.resample_data). Hold the data fixed: --fixed-data, or compare.resample_data:"
        " false."
        for part in PARTS
        if len({getattr(data, f"{part}_seed") for data in generated}) > 1
    ]


def _read_section(draft: Draft, replaced: Mapping[str, Any]) -> Compare:
    """Remove the section `compare` from a draft, and return it with the replaced keys,
    those with a value other than None.

    Raises:
        ConfigError: if the section has mistakes; the error lists them.
    """
    section = draft.content.pop("compare", None)
    if section is None or isinstance(section, dict):
        given = {key: value for key, value in replaced.items() if value is not None}
        section = {**(section or {}), **given}
    try:
        return Compare.model_validate(section)
    except ValidationError as error:
        found = [
            describe_error({**details, "loc": ("compare", *details["loc"])}, {"compare": section})
            for details in error.errors()
        ]
        raise ConfigError(
            f"{draft.name}: {count_mistakes(len(found))}.",
            [f"{origin_at(at, draft.places, draft.path)}: {'.'.join(at)}: {words}"
             for at, words in found],
        ) from None  # fmt: skip


@dataclass(frozen=True)
class _VariantDraft:
    """A variant before validation.

    Attributes:
        changes: the changed values by dotted path.
        origin: the origin of the changes, for messages.
        name, series, at: see `VariantConfig`.
    """

    name: str
    changes: Mapping[str, Any]
    origin: str
    series: str
    at: float | None


def _plan_variants(
    path: str, compare: Compare, vary: Grid, along: Grid | None
) -> tuple[list[_VariantDraft], str]:
    """Return every variant, at every value of the sweep if there is a sweep, and the sweep key. If
    there are neither named variants nor a grid, each value of the sweep is a variant.

    Args:
        path: the path of the config, for messages.
        compare: the section `compare` of the config.
        vary, along: see `plan_comparison`.

    Raises:
        ConfigError: if the grid or the sweep has mistakes; the error lists these mistakes.
    """
    mistakes: list[str] = []
    place = "--vary" if vary else "compare.vary"
    grid = _read_grid(vary or compare.vary, place, mistakes)
    sweep = _read_sweep(compare.along if along is None else along,
                        "compare.along" if along is None else "--along", mistakes)  # fmt: skip
    if mistakes:
        raise ConfigError(f"{path}: {count_mistakes(len(mistakes))}.", mistakes)
    named = {} if vary else compare.variants
    variants = list(named.items()) or _combine(grid)
    (key, numbers), *_ = [*sweep.items(), ("", [None])]
    arms = list[_VariantDraft]()
    for series, constant in variants or ([("", {})] if sweep else []):
        for number in numbers:
            name, at, changes = series, None, dict(constant)
            if sweep:
                changes[key] = number
                name, at = "_".join(filter(None, [series, _value_name(key, number)])), float(number)
            values = ", ".join(f"{key}={json.dumps(value)}" for key, value in changes.items())
            origin = f"compare.variants.{name}" if named else f"{place} {values}"
            arms.append(_VariantDraft(name, changes, origin, series, at))
    return arms, key


def _combine(grid: Mapping[str, Sequence[Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the name and the changes of every combination of the values of a grid."""
    combinations = itertools.product(*grid.values()) if grid else ()
    variants = [dict(zip(grid, values, strict=True)) for values in combinations]
    return [("_".join(itertools.starmap(_value_name, one.items())), one) for one in variants]


def _read_sweep(given: Grid, option: str, mistakes: list[str]) -> dict[str, list[Any]]:
    """Return the key of a sweep with its numbers; empty without a sweep. Add mistakes to
    `mistakes`."""
    sweep = _read_grid(given, option, mistakes)
    if len(sweep) > 1:
        mistakes.append(f"--along: expected one key, got {len(sweep)} keys.")
    mistakes += [
        f"--along {key}: {json.dumps(value)} is not a number."
        for key, values in sweep.items()
        for value in values
        if isinstance(value, bool) or not isinstance(value, int | float)
    ]
    return sweep


def _read_grid(given: Grid, option: str, mistakes: list[str]) -> dict[str, list[Any]]:
    """Return the values of each key of a grid; see `Grid` and `read_yaml_list`. Add the mistakes in
    the grid to `mistakes`."""
    grid: dict[str, list[Any]] = {}
    if isinstance(given, Mapping):
        grid = {key: list(values) for key, values in given.items()}
        given = ()
    for setting in [given] if isinstance(given, str) else given:
        dotted, equals, text = setting.partition("=")
        key = dotted.strip()
        if not equals or not key:
            mistakes.append(f"{option} {setting}: expected PATH=A,B,..., such as"
                            " model.hidden_dim=4,16.")  # fmt: skip
        elif key in grid:
            mistakes.append(f"{option} {key}: is given twice; give all its values at once.")
        else:
            try:
                grid[key] = read_yaml_list(text, f"{option} {setting}")
            except ConfigError as error:
                mistakes.append(str(error))
    mistakes += _check_grid(grid, option)
    return grid


def _check_grid(grid: Mapping[str, Sequence[Any]], option: str) -> list[str]:
    """Return the mistakes in the keys and the values of a grid."""
    mistakes = list[str]()
    for key, values in grid.items():
        texts = [json.dumps(value, sort_keys=True) for value in values]
        twice = sorted({text for text in texts if texts.count(text) > 1})
        if not values:
            mistakes.append(f"{option} {key}: names no values to compare.")
        if not all(key.split(".")):
            mistakes.append(f"{option} {key}: is not a dotted key such as model.hidden_dim.")
        mistakes += [f"{option} {key}: has the value {text} twice." for text in twice]
    return mistakes


def _value_name(key: str, value: Any) -> str:
    """Return a name for a value of a key, such as `dot` for a string, or `hidden_dim-16` for a
    number. Consecutive characters that a name cannot contain become one hyphen."""
    if isinstance(value, dict):
        value = "-".join(str(inner) for inner in value.values())
    elif not isinstance(value, str):
        value = f"{key.rpartition('.')[2]}-{json.dumps(value)}"
    return re.sub(r"[^A-Za-z0-9._-]+", "-", value).strip("-.") or "empty"


def _check_overrides(
    draft: Draft, replaced: Sequence[str], arms: Sequence[_VariantDraft]
) -> list[str]:
    """Return a mistake for each override that has no effect.

    Args:
        draft: the draft with the overrides.
        replaced: the keys of the section `compare` that options of the command replace.
        arms: the variants.
    """
    changed = [{tuple(key.split(".")) for key in arm.changes} for arm in arms]
    by_variants = [
        origin
        for path, origin in draft.overrides.items()
        if all(any(path[:length] in keys for length in range(len(path) + 1)) for keys in changed)
    ]
    by_options = [origin for key in replaced for origin in draft.overrides_at(("compare", key))]
    return [
        f"{origin}: has no effect, because {what} this key. Give only one of the two."
        for origins, what in ((by_variants, "every variant sets"),
                              (by_options, "another option replaces"))
        for origin in origins
    ]  # fmt: skip


def _check_variants(variants: Sequence[VariantConfig], names: Sequence[str]) -> list[str]:
    """Return a mistake for each name that cannot be that of a folder, and for equal variants."""
    seen: dict[str, str] = {}
    pairs = [(seen.setdefault(json.dumps(variant.as_plain()), variant.name), variant.name)
             for variant in variants]  # fmt: skip
    return [
        *(f"variants {a} and {b} are the same config." for a, b in pairs if a != b),
        *(f"a variant cannot have the name {name}, which is a file of the comparison's folder; name"
          " it under compare.variants." for name in names if name.lower() in FILES),
        *(f"two variants would have the name {name}; name them under compare.variants."
          for name in sorted({name for name in names if names.count(name) > 1})),
    ]  # fmt: skip
