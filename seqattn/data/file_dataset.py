"""The user's own sequences as three parts.

The order matters, so that nothing leaks: series are split first; windows are cut within a part, and
empty cells of a source are filled from its own points; scaling, season and the scale of errors are
taken from the training part alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqattn.config import OwnFile
from seqattn.data.cutting import cut
from seqattn.data.files import Chunk, Ragged
from seqattn.data.fitting import fit
from seqattn.data.metrics import InSample, SeriesTable
from seqattn.data.naive import check_season, places_of_targets
from seqattn.data.notes import left_out_notes, size_note, spacing_notes
from seqattn.data.places import files_of
from seqattn.data.reading import digest_of, read_series
from seqattn.data.scaling import Scaling
from seqattn.data.sequences import Sequences
from seqattn.data.series import Series, Spans
from seqattn.data.sliding import LeftOut
from seqattn.data.spacing import Frequency
from seqattn.data.splitting import PARTS, three_parts
from seqattn.data.windows import Windows
from seqattn.errors import DataError
from seqattn.rng import stream

UNKNOWN = "unknown"
"""The path in a checkpoint's config: a checkpoint names no file."""
MOST_FITTED = 2**27
"""Numbers of the training sequences that baselines are fitted to."""
MOST_LISTED = 10**5
"""Series of which a run folder says which part they are in."""


@dataclass(frozen=True, eq=False)
class FileDataset:
    """What became of the user's files.

    Attributes:
        parts: training, validation, test.
        fitted_on: the training sequences that baselines are fitted to.
        scaling: fitted on the training part.
        notes: what a user should be told, a sentence each.
        split: (name of the series, part, first step, last step) of each.
        digests: SHA-256 of each path of the config.
        sources: SHA-256 of each file, where a path stands for several.
        frequency: how far apart the steps of all training series are, or None.
        in_sample: season and scale of the errors, of the training series.
    """

    parts: tuple[Windows, Windows, Windows]
    fitted_on: Windows
    scaling: Scaling
    notes: tuple[str, ...]
    split: tuple[tuple[str, str, str, str], ...]
    digests: tuple[str, ...]
    sources: dict[str, str]
    frequency: Frequency | None
    in_sample: InSample


def load_file_dataset(config: OwnFile) -> FileDataset:
    """Read, split, cut and scale.

    Raises:
        DataError: what a user can mend, with its place in the file.
        StorageError: there is no room for a cache of large files.
    """
    read = _read(config)
    notes = [f"{one.name}: {note}" for one in read for note in one.notes]
    if len(read) == 1:
        spans, short = three_parts(read[0], config)
        series = read * 3
    else:
        spans, short, series = [Spans.of_series(one) for one in read], [], read
    notes += spacing_notes(series, spans)
    left_out = LeftOut(too_short=short)
    parts = list[Windows]()
    few = sum(map(len, spans)) <= MOST_LISTED
    split = tuple(_split_rows(series, spans)) if few else ()
    spans = [some.kept(one) for one, some in zip(series, spans, strict=True)]
    for part, one, some in zip(PARTS, series, spans, strict=True):
        if not len(some):
            raise DataError(f"{one.name}: the {part} part has no sequences left.")
        made = cut(one, some, config, left_out)
        if not len(made):
            raise DataError(f"{one.name}: the {part} part has no sequences left.")
        check_observed(made, f"{one.name}: the {part} part", every_feature=part == "train")
        parts.append(made)
    _check_alike(parts)
    train, validation, test = parts
    in_sample, of_season = in_sample_of(target_series(series[0], spans[0], config), train, config)
    scaling, scaling_notes = fit(config, train)
    fitted_on = _some(train, config)
    notes += [*left_out_notes(read, left_out), *scaling_notes, *of_season]
    notes.append(size_note(train, validation, test))
    if len(fitted_on) < len(train):
        notes.append(f"baselines are fitted to {len(fitted_on):,} training sequences")
    frequency = _common(series[0], spans[0])
    sources = {path: digest for one in read for path, digest in one.digests.items()}
    return FileDataset(
        (train, validation, test), fitted_on, scaling, tuple(notes), split,
        tuple(_digest(one) for one in read), sources if len(sources) > len(read) else {},
        frequency, in_sample,
    )  # fmt: skip


def _paths(config: OwnFile) -> list[str]:
    return [path for path in (config.path, config.validation_path, config.test_path) if path]


def _read(config: OwnFile) -> list[Series]:
    """The series of each path of a config.

    Raises:
        DataError: two parts have the same file, or the bytes of one.
    """
    if config.path == UNKNOWN:
        raise DataError(
            "a checkpoint does not say where its training data lie. Give a run folder, or your own"
            " sequences with --input."
        )
    paths = _paths(config)
    files = [files_of(path, config.format) for path in paths]
    held = {file.resolve() for some in files[1:] for file in some}
    training = [file for file in files[0] if file.resolve() not in held]
    if not training or len(held) < sum(map(len, files[1:])):
        raise DataError(f"{paths[0]}: is the file of two parts. Give each part files of its own.")
    note = ""
    if len(training) < len(files[0]):
        note = (f"{len(files[0]) - len(training)} of the {len(files[0])} files are those of the"
                " other two parts, and do not train")  # fmt: skip
    found, seen = list[Series](), dict[str, str]()
    for path, some in zip(paths, [training, *files[1:]], strict=True):
        series = read_series(path, some, config)
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


def _digest(series: Series) -> str:
    """SHA-256 of a part's file, or of the digests of all its files in their order."""
    content = list(series.digests.values())
    if len(content) == 1:
        return content[0]
    return hashlib.sha256("".join(content).encode()).hexdigest()


def digests(config: OwnFile) -> tuple[str, ...]:
    """SHA-256 of each path of a config; see `Own.digests`.

    Raises:
        DataError: one is not there.
    """
    found = []
    held = {file.resolve() for path in _paths(config)[1:] for file in files_of(path, config.format)}
    for k, path in enumerate(_paths(config)):
        files = files_of(path, config.format)
        content = [digest_of(file) for file in files if k or file.resolve() not in held]
        found.append(
            content[0] if len(content) == 1
            else hashlib.sha256("".join(content).encode()).hexdigest()
        )  # fmt: skip
    return tuple(found)


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


def in_sample_of(
    table: SeriesTable, train: Sequences, config: OwnFile
) -> tuple[InSample, list[str]]:
    """What baselines and MASE take from the training part, and what a user should be told of it.

    Raises:
        DataError: a season that was given and that no source of the training part can repeat.
    """
    if config.season is not None:
        check_season(train, config.season)
    is_given = places_of_targets(train) is not None
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
    if not part.masks_targets:
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


def renamed(chunk: Chunk, features: tuple[str, ...]) -> Chunk:
    """The same with the model's names for its columns."""
    points = chunk.points
    return replace(chunk, points=Ragged(points.values, points.offsets, features))


def _some(train: Windows, config: OwnFile) -> Windows:
    """Training sequences for the baselines: all, or as many as bear it, drawn by the seed of the
    split."""
    numbers = train.source_steps * len(train.features) + train.target_steps * len(
        train.target_features
    )
    most = max(1, MOST_FITTED // numbers)
    if len(train) <= most:
        return train
    drawn = stream(config.split.seed, "sample", 0).permutation(len(train))[:most]
    return train.subset(np.sort(drawn))


def _check_alike(parts: Sequence[Sequences]) -> None:
    """
    Raises:
        DataError: parts of files of their own have other features.
    """
    first = parts[0]
    for part in parts:
        if (part.features, part.target_features) != (first.features, first.target_features):
            raise DataError(
                f"one part has the features {', '.join(part.features)} (source) and"
                f" {', '.join(part.target_features)} (target), the training part"
                f" {', '.join(first.features)} and {', '.join(first.target_features)}."
            )


def _common(series: Series, spans: Spans) -> Frequency | None:
    return None if series.spacing is None else series.spacing.at(spans.series_index).common()


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
