"""The user's own sequences as three parts.

The order matters, so that nothing leaks: series are split first; windows are cut within a part, and
empty cells of a source are filled from its own points; scaling, season and the scale of errors are
taken from the training part alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqattn.config import OwnFile
from seqattn.data.cutting import cut_series
from seqattn.data.files import Chunk, Ragged
from seqattn.data.fitting import fit_scaling
from seqattn.data.metrics import InSample, SeriesTable
from seqattn.data.naive import check_season, source_columns_of_targets
from seqattn.data.notes import left_out_notes, size_note, spacing_notes
from seqattn.data.paths import find_files
from seqattn.data.reading import read_series
from seqattn.data.sequences import Sequences
from seqattn.data.series import Series, Spans
from seqattn.data.sliding import LeftOut
from seqattn.data.splits import Splits
from seqattn.data.splitting import PARTS, split_series
from seqattn.data.units import check_units
from seqattn.data.windows import Windows
from seqattn.errors import DataError
from seqattn.rng import stream

UNKNOWN = "unknown"
"""The path in a checkpoint's config: a checkpoint names no file."""
MAX_FITTED_VALUES = 2**27
"""Numbers of the training sequences that baselines are fitted to."""
MAX_LISTED_SERIES = 10**5
"""Series of which a run folder says which part they are in."""


def load_file_dataset(config: OwnFile) -> Splits:
    """Read, split, cut and scale.

    Raises:
        DataError: what a user can mend, with its place in the file.
        StorageError: there is no room for a cache of large files.
    """
    read = _read_parts(config)
    if len(read) == 1:
        spans, short = split_series(read[0], config)
        series = read * 3
    else:
        spans, short, series = [Spans.of_series(one) for one in read], [], read
    left_out = LeftOut(too_short=short)
    few = sum(map(len, spans)) <= MAX_LISTED_SERIES
    split = tuple(_split_rows(series, spans)) if few else ()
    notes = [f"{one.name}: {note}" for one in read for note in one.notes]
    notes += spacing_notes(series, spans)
    spans = [some.kept(one) for one, some in zip(series, spans, strict=True)]
    parts = _cut_parts(series, spans, config, left_out)
    train, validation, test = parts
    units = config.units or {}
    check_units(units, list(dict.fromkeys([*train.features, *train.target_features])))
    in_sample, of_season = compute_in_sample(
        target_series(series[0], spans[0], config), train, config
    )
    scaling, scaling_notes = fit_scaling(config, train)
    fitted_on = _sample_for_baselines(train, config)
    notes += [*left_out_notes(read, left_out), *scaling_notes, *of_season]
    notes.append(size_note(train, validation, test))
    if len(fitted_on) < len(train):
        notes.append(f"baselines are fitted to {len(fitted_on):,} training sequences")
    if config.season is not None:
        for held_out in (validation, test):
            check_season(held_out, config.season)
    sources = {path: digest for one in read for path, digest in one.digests.items()}
    return Splits(
        train, validation, test, scaling,
        notes=tuple(notes), split=split, digests=tuple(_combined_digest(one) for one in read),
        sources=sources if len(sources) > len(read) else {},
        frequency=spans[0].frequency(series[0]),
        in_sample=in_sample, fitted_on=fitted_on, roles=series[0].roles, units=units,
    )  # fmt: skip


def _cut_parts(
    series: Sequence[Series], spans: Sequence[Spans], config: OwnFile, left_out: LeftOut
) -> list[Windows]:
    """
    Raises:
        DataError: a part has no sequences or no observed target, or other features than the first.
    """
    parts = list[Windows]()
    for called, one, some in zip(PARTS, series, spans, strict=True):
        part = cut_series(one, some, config, left_out) if len(some) else ()
        if not part:
            raise DataError(f"{one.name}: the {called} part has no sequences left.")
        check_observed(part, f"{one.name}: the {called} part", every_feature=called == "train")
        parts.append(part)
    first = parts[0]
    for part in parts:
        if (part.features, part.target_features) != (first.features, first.target_features):
            raise DataError(
                f"one part has the features {', '.join(part.features)} (source) and"
                f" {', '.join(part.target_features)} (target), the training part"
                f" {', '.join(first.features)} and {', '.join(first.target_features)}."
            )
    return parts


def _read_parts(config: OwnFile) -> list[Series]:
    """The series of each path of a config.

    Raises:
        DataError: two parts have the same file, or the bytes of one.
    """
    if config.path == UNKNOWN:
        raise DataError(
            "a checkpoint does not say where its training data lie. Give a run folder, or your own"
            " sequences with --input."
        )
    files, note = _find_files_of_parts(config)
    found, seen = list[Series](), dict[str, str]()
    for path, some in files.items():
        series = read_series(path, some, config, found[0].roles if found else None)
        for file, digest in series.digests.items():
            if digest in seen:
                raise DataError(
                    f"{file}: has the bytes of {seen[digest]}, which belongs to another part. Give"
                    " each part sequences of its own."
                )
        seen |= {digest: file for file, digest in series.digests.items()}
        found.append(series)
    if note:
        found[0] = replace(found[0], notes=(*found[0].notes, note))
    return found


def _find_files_of_parts(config: OwnFile) -> tuple[dict[str, list[Path]], str]:
    """The files of each path of a config, and a note on those of the first that do not train.

    Raises:
        DataError: two parts have the same file.
    """
    paths = [path for path in (config.path, config.validation_path, config.test_path) if path]
    every, *others = (find_files(path, config.format) for path in paths)
    held = {file.resolve() for some in others for file in some}
    training = [file for file in every if file.resolve() not in held]
    if not training or len(held) < sum(map(len, others)):
        raise DataError(f"{paths[0]}: is the file of two parts. Give each part files of its own.")
    left_out = len(every) - len(training)
    note = (f"{left_out} of the {len(every)} files are those of the other two parts, and do not"
            " train")  # fmt: skip
    return dict(zip(paths, [training, *others], strict=True)), note if left_out else ""


def _combined_digest(series: Series) -> str:
    """SHA-256 of a part's file, or of the digests of all its files in their order."""
    content = list(series.digests.values())
    if len(content) == 1:
        return content[0]
    return hashlib.sha256("".join(content).encode()).hexdigest()


def target_series(series: Series, spans: Spans, config: OwnFile) -> SeriesTable:
    """The target features of each series of a part, whole: windows would repeat its points. Where a
    file keeps targets apart, they alone, since nothing says that they go on from their sources."""
    if series.target is not None:
        target = series.target
        starts, lengths = (
            target.offsets[:-1][spans.series_index],
            target.lengths[spans.series_index],
        )
        return SeriesTable(target.values, list(range(len(target.features))), starts, lengths)
    names = config.target_features or series.columns
    places = [series.columns.index(name) for name in names]
    return SeriesTable(series.points.values, places, spans.starts, spans.lengths)


def compute_in_sample(
    table: SeriesTable, train: Sequences, config: OwnFile
) -> tuple[InSample, list[str]]:
    """What baselines and MASE take from the training part, and what a user should be told of it.

    Raises:
        DataError: a season that was given and that no source of the training part can repeat.
    """
    if config.season is not None:
        check_season(train, config.season)
    is_given = source_columns_of_targets(train) is not None
    longest = int(train.source_lengths.min()) if is_given else None
    found, note = InSample.of(table, config.season, longest)
    return found, [note] if note else []


def check_observed(part: Sequences, called: str, *, every_feature: bool = False) -> None:
    """
    Args:
        called: the part, for a message.
        every_feature: whether each feature must have been observed, as in a training part.

    Raises:
        DataError: no target cell of the part, or of one feature, was observed.
    """
    if not part.has_masked_targets:
        return
    seen = np.zeros(len(part.target_features), dtype=bool)
    for cells in part.observed_targets():
        seen |= cells.any(axis=(0, 1))
    if not seen.any():
        raise DataError(
            f"{called} has no target that was observed: all its cells are empty, so nothing can be"
            " learned or scored. Give rows with values, or change the target features."
        )
    if every_feature and not seen.all():
        name = part.target_features[int(seen.argmin())]
        raise DataError(
            f"{called} has no observed {name!r} in its targets, so it"
            " cannot be learned. Give rows with values, or leave it out of the target features."
        )


def rename_features(chunk: Chunk, features: tuple[str, ...]) -> Chunk:
    """The same with the model's names for its columns."""
    points = chunk.points
    return replace(chunk, points=Ragged(points.values, points.offsets, features))


def _sample_for_baselines(train: Windows, config: OwnFile) -> Windows:
    """Training sequences for the baselines: all, or as many as bear it, drawn by the seed of the
    split."""
    numbers = train.source_steps * len(train.features) + train.target_steps * len(
        train.target_features
    )
    most = max(1, MAX_FITTED_VALUES // numbers)
    if len(train) <= most:
        return train
    drawn = stream(config.split.seed, "sample", 0).permutation(len(train))[:most]
    return train.subset(np.sort(drawn))


def _split_rows(
    series: Sequence[Series], spans: Sequence[Spans]
) -> Iterator[tuple[str, str, str, str]]:
    for part, one, some in zip(PARTS, series, spans, strict=True):
        for k, first, length in zip(some.series_index, some.starts, some.lengths, strict=True):
            last = int(first + length - 1)
            if one.order is None:
                yield one.ids[int(k)], part, "1", str(int(length))
            else:
                yield one.ids[int(k)], part, one.step(int(first), k), one.step(last, k)
