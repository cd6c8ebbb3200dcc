"""The training series that baselines and MASE are scaled by, before they are cut into windows."""

from __future__ import annotations

from seqattn.config import OwnFile
from seqattn.data.metrics import InSample, SeriesTable
from seqattn.data.naive import check_season, places_of_targets
from seqattn.data.own.series import Series
from seqattn.data.sequences import Sequences


def target_series(series: Series, config: OwnFile) -> SeriesTable:
    """The target features of each series of a part, whole: windows would repeat its points. Where a
    file keeps targets apart, they alone, since nothing says that they go on from their sources.

    Args:
        series: after `treat_missing`.
    """
    if series.target is not None:
        target = series.target
        return SeriesTable(target.values, list(range(len(target.features))), target.offsets)
    points = series.points
    names = config.target_features or points.features
    places = [points.features.index(name) for name in names]
    return SeriesTable(points.values, places, points.offsets, series.was_empty)


def in_sample_of(
    series: SeriesTable, train: Sequences, config: OwnFile
) -> tuple[InSample, list[str]]:
    """What baselines and MASE take from the training part, and what a user should be told of it.

    Args:
        series: of the training part.
        train: the same as it is given and said.

    Raises:
        DataError: a season that was given and that no source of the training part can repeat.
    """
    if config.season is not None:
        check_season(train, config.season)
    is_given = places_of_targets(train) is not None
    longest = int(train.source_lengths.min()) if is_given else None
    found, note = InSample.of(series, config.season, longest)
    return found, [note] if note else []
