"""Data sets from the user's files.

The order of operations prevents data leakage. Series are split into parts before they are cut. Each
sequence is cut from a single part, and empty cells of a source are filled from the same source. The
scaling, the season and the error scales are fitted to the training part alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from seqattn.config import UNKNOWN_PATH, OwnFile
from seqattn.data.chunk import Chunk, Ragged
from seqattn.data.cutting import PARTS, LeftOut, cut_series, split_series
from seqattn.data.files import find_files
from seqattn.data.fitting import fit_spaces
from seqattn.data.many_files import read_series
from seqattn.data.metrics import InSample
from seqattn.data.naive import check_season, source_columns_of_targets
from seqattn.data.sequences import Integers, Sequences
from seqattn.data.series import Series, Spans
from seqattn.data.spacing import Frequency
from seqattn.data.spec import Splits
from seqattn.data.units import check_units
from seqattn.data.windows import RowRanges, Windows
from seqattn.errors import DataError, counted
from seqattn.rng import rng_for


def size_note(train: Sequences, validation: Sequences, test: Sequences) -> str:
    """Return a note on the number of sequences in each part and on the lengths of the sequences."""
    return (
        f"{len(train)} training, {len(validation)} validation and {len(test)} test sequences;"
        f" source {_range_text(train.source_lengths)}, target"
        f" {_range_text(train.target_lengths)} points"
    )


def too_short_notes(names: Sequence[str]) -> list[str]:
    """Return a list with a note on sequences that are too short. Without such sequences, the list
    is empty."""
    if not names:
        return []
    more = ", ..." if len(names) > 5 else ""
    return [
        f"{counted(len(names), 'sequence')} left out, too short to be cut into source and target:"
        f" {', '.join(names[:5])}{more}"
    ]


def describe_dropped_series(count: int) -> str:
    """Return text that states how many series `data.missing: drop_sequence` drops, and why."""
    return f"{counted(count, 'sequence')} with empty cells or missing rows"


def describe_dropped(count: int, config: OwnFile) -> str:
    """Return text that states how many series or windows `data.missing` drops, and why."""
    if config.window is None:
        return describe_dropped_series(count)
    if config.missing == "drop_sequence":
        return f"{counted(count, 'window')} with empty cells or missing rows"
    return f"{counted(count, 'window')} without a value of some feature in the source"


def left_out_notes(read: Sequence[Series], left_out: LeftOut, config: OwnFile) -> list[str]:
    """Return notes on empty cells and on sequences that are left out."""
    empty = sum(one.empty for one in read)
    notes = [
        f"{empty} empty cells: interpolated in sources, left out of losses and errors in"
        " targets (data.missing)"
    ] if empty else []  # fmt: skip
    notes += too_short_notes(left_out.too_short)
    names = [name for one in read for name in one.dropped_names]
    count = len(names) + left_out.dropped
    if count:
        shown = [*names, *left_out.names][:5]
        notes.append(
            f"dropped {describe_dropped(count, config)} (data.missing):"
            f" {', '.join(shown)}{', ...' if count > 5 else ''}"
        )
    return notes


def spacing_notes(series: Sequence[Series], spans: Sequence[Spans]) -> list[str]:
    """Return notes on series with different or irregular step intervals."""
    found, uneven = dict[Frequency, int](), dict[str, None]()
    for one, some in zip(series, spans, strict=True):
        if one.spacing is not None:
            mine = one.spacing.select(some.series_index)
            found |= mine.frequencies()
            at = np.flatnonzero(~mine.is_known & (some.lengths > 1))
            uneven |= dict.fromkeys(one.ids[int(k)] for k in some.series_index[at])
    notes = []
    if len(found) > 1:
        first = ", ".join(map(str, list(found)[:5])) + (", ..." if len(found) > 5 else "")
        notes.append(f"series have different spacings, each its own: {first}")
    if uneven:
        notes.append(
            f"the steps of {len(uneven)} sequences are not evenly spaced ({next(iter(uneven))!r}),"
            " so their rows are taken in order"
        )
    return notes


def _range_text(lengths: Integers) -> str:
    low, high = int(lengths.min()), int(lengths.max())
    return str(low) if low == high else f"{low} to {high}"


MAX_FITTED_VALUES = 2**27
"""Maximum number of values in the training sequences to which baselines are fitted."""
MAX_LISTED_SERIES = 10**5
"""Maximum number of row ranges that `split.csv` in the run folder lists. If there are more, the
file lists none."""


def load_file_dataset(config: OwnFile, *, fits_scaling: bool = True) -> Splits:
    """Read the files that a config names, cut the series of each part into sequences, and fit the
    scaling. If all parts come from one path, the series are split into parts before they are cut.

    Args:
        config: the section `data` of a config.
        fits_scaling: see `seqattn.data.load_data`.
    """
    read, empty = _leave_out_empty(_read_parts(config))
    if len(read) == 1:
        spans, short = split_series(read[0], config)
        series = read * 3
    else:
        spans, short, series = [Spans.of_series(one) for one in read], [], read
    left_out = LeftOut(too_short=[*empty, *short])
    few = sum(map(len, spans)) <= MAX_LISTED_SERIES
    split = tuple(_split_rows(series, spans)) if few else ()
    notes = [f"{one.name}: {note}" for one in read for note in one.notes]
    notes += spacing_notes(series, spans)
    spans = [some.without_dropped(one) for one, some in zip(series, spans, strict=True)]
    parts = _cut_parts(series, spans, config, left_out)
    train, validation, test = parts
    check_units(config.units or {}, list(dict.fromkeys([*train.features, *train.target_features])))
    in_sample, of_season = compute_in_sample(
        target_series(series[0], spans[0], config), train, config
    )
    spaces, scaling_notes = fit_spaces(config, train, fits=fits_scaling)
    fitted_on = _sample_for_baselines(train, config)
    notes += [*left_out_notes(read, left_out, config), *scaling_notes, *of_season]
    notes.append(size_note(train, validation, test))
    if len(fitted_on) < len(train):
        notes.append(f"baselines are fitted to {len(fitted_on):,} training sequences")
    if config.season is not None:
        for held_out in (validation, test):
            check_season(held_out, config.season)
    digests_by_file = {path: digest for one in read for path, digest in one.digests.items()}
    return Splits(
        train, validation, test,
        notes=tuple(notes), split=split, digests=tuple(_combined_digest(one) for one in read),
        digests_by_file=digests_by_file if len(digests_by_file) > len(read) else {},
        frequency=spans[0].frequency(series[0]),
        in_sample=in_sample, fitted_on=fitted_on, reading=series[0].reading,
    ).with_spaces(*spaces)  # fmt: skip


def _leave_out_empty(read: Sequence[Series]) -> tuple[list[Series], list[str]]:
    """Return the series of each path without the series that have no rows, and the names of
    these."""
    found = [one.without_empty() for one in read]
    return [series for series, _ in found], [name for _, names in found for name in names]


def _cut_parts(
    series: Sequence[Series], spans: Sequence[Spans], config: OwnFile, left_out: LeftOut
) -> list[Windows]:
    """Cut the series of each part into sequences.

    Raises:
        DataError: if a part cannot be cut, if a part has no sequences or no observed target, if a
            target feature has no observed cell in the training part, or if the features of a part
            differ from the features of the training part.
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
                f" {', '.join(part.target_features)} (target), but the training part has"
                f" {', '.join(first.features)} and {', '.join(first.target_features)}."
            )
    return parts


def _read_parts(config: OwnFile) -> list[Series]:
    """Read the series of each path in a config.

    Raises:
        DataError: if the config contains `UNKNOWN_PATH` instead of a path, or if two parts contain
            the same file or files with the same content.
    """
    if config.path == UNKNOWN_PATH:
        raise DataError(
            "a checkpoint does not store the path of its training data. Give a run folder, or your"
            " own sequences with --input."
        )
    files, note = _find_files_of_parts(config)
    found, file_of_digest = list[Series](), dict[str, str]()
    for path, some in files.items():
        series = read_series(path, some, config, found[0].reading if found else None)
        for file, digest in series.digests.items():
            if digest in file_of_digest:
                raise DataError(
                    f"{file}: has the same content as {file_of_digest[digest]}, which belongs to"
                    " another part. Give each part different sequences."
                )
        file_of_digest |= {digest: file for file, digest in series.digests.items()}
        found.append(series)
    if note:
        found[0] = replace(found[0], notes=(*found[0].notes, note))
    return found


def _find_files_of_parts(config: OwnFile) -> tuple[dict[str, list[Path]], str]:
    """Find the files of each path in a config.

    Returns:
        a dictionary from each path to its files, and a note for the user. The note is "" unless the
        first path also covers files of the other parts. Such files do not count as files of the
        first path.

    Raises:
        DataError: if the first path has no files of its own, or if the other paths share a file.
    """
    paths = [path for path in (config.path, config.validation_path, config.test_path) if path]
    every, *others = (find_files(path, config.format) for path in paths)
    held_out_files = {file.resolve() for some in others for file in some}
    training = [file for file in every if file.resolve() not in held_out_files]
    if not training or len(held_out_files) < sum(map(len, others)):
        raise DataError(f"{paths[0]}: is used by two parts. Give each part separate files.")
    left_out = len(every) - len(training)
    note = (f"{left_out} of the {len(every)} files belong to the other parts and are not used for"
            " training")  # fmt: skip
    return dict(zip(paths, [training, *others], strict=True)), note if left_out else ""


def _combined_digest(series: Series) -> str:
    """Return the SHA-256 digest of the file of a part. If the part has several files, join the
    digests in the order of the files, and return the digest of the result."""
    content = list(series.digests.values())
    if len(content) == 1:
        return content[0]
    return hashlib.sha256("".join(content).encode()).hexdigest()


def target_series(series: Series, spans: Spans, config: OwnFile) -> RowRanges:
    """Return the target features of all series in a part. Unlike overlapping windows, the result
    contains each row only once.

    If the file has separate targets, return only the targets, because targets do not necessarily
    continue their sources.
    """
    if (target := series.target) is not None:
        indices = spans.series_index
        spans = Spans(indices, target.offsets[:-1][indices], target.lengths[indices])
    points = series.points if target is None else target
    names = points.features if target is not None else config.target_features or points.features
    return RowRanges(
        points.values, tuple(map(points.features.index, names)), tuple(names), spans.starts,
        spans.lengths, spans.series_index,
    )  # fmt: skip


def compute_in_sample(
    table: RowRanges, train: Sequences, config: OwnFile
) -> tuple[InSample, list[str]]:
    """Compute the statistics for baselines and MASE from the training part.

    Returns:
        the statistics, and notes for the user.
    """
    if config.season is not None:
        check_season(train, config.season)
    sources_have_targets = source_columns_of_targets(train) is not None
    longest = int(train.source_lengths.min()) if sources_have_targets else None
    found, note = InSample.of(table, config.season, longest)
    return found, [note] if note else []


def check_observed(part: Sequences, called: str, *, every_feature: bool = False) -> None:
    """Check that a part has observed targets.

    Args:
        part: the sequences.
        called: name of the part, for messages.
        every_feature: whether each target feature needs an observed cell, as in a training part.

    Raises:
        DataError: if no target cell of the part was observed, or if `every_feature` is True and a
            target feature has no observed cell.
    """
    if not part.has_masked_targets:
        return
    observed = np.zeros(len(part.target_features), dtype=bool)
    for cells in part.observed_targets():
        observed |= cells.any(axis=(0, 1))
    if not observed.any():
        raise DataError(
            f"{called} has no target that was observed: all its cells are empty, so nothing can be"
            " learned or scored. Give rows with values, or change the target features."
        )
    if every_feature and not observed.all():
        name = part.target_features[int(observed.argmin())]
        raise DataError(
            f"{called} has no observed {name!r} in its targets, so it"
            " cannot be learned. Give rows with values, or leave it out of the target features."
        )


def rename_features(chunk: Chunk, features: tuple[str, ...]) -> Chunk:
    """Return the chunk with its features renamed to the features of a model."""
    points = chunk.points
    return replace(chunk, points=Ragged(points.values, points.offsets, features))


def _sample_for_baselines(train: Windows, config: OwnFile) -> Windows:
    """Return the training sequences for fitting baselines. If the sequences together have more than
    `MAX_FITTED_VALUES` values, return a sample that is drawn with the seed of the split."""
    source_size = train.source_steps * len(train.features)
    target_size = train.target_steps * len(train.target_features)
    max_sequences = max(1, MAX_FITTED_VALUES // (source_size + target_size))
    if len(train) <= max_sequences:
        return train
    drawn = rng_for(config.split.seed, "sample", 0).permutation(len(train))[:max_sequences]
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
