"""A set of sequences as padded arrays of sources and targets, with their lengths."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqattn.data.spaces import MAX_BLOCK_VALUES as MAX_BLOCK_VALUES
from seqattn.data.spaces import Floats as Floats
from seqattn.data.spaces import Integers as Integers
from seqattn.data.spaces import Scaler, Space, Vectors, source_indices_of
from seqattn.data.spaces import row_blocks as row_blocks
from seqattn.data.spacing import Spacing
from seqattn.data.tokens import Links
from seqattn.data.units import Units
from seqattn.errors import DataError

NO_SPACE: Space = Vectors.unscaled(())


@dataclass(frozen=True, eq=False)
class Sequences:
    """N pairs of a source and a target sequence.

    Each step has F features. F may differ between source and target. Padding is 0, and the lengths
    define the valid steps.

    Attributes:
        source: (N, S, F) values of the sources.
        source_lengths: (N,) number of valid steps in each source, 1 or more.
        target: (N, T, F) values to forecast. T may be 0 if the target is unknown.
        target_lengths: (N,) number of valid steps in each target.
        features: names of the F source features.
        ids: names of the N sequences.
        labels: short description of each sequence for plot titles, such as "clockwise"; empty if
            there are no descriptions.
        ideal: (N, T, F) the targets without noise, or None if they are unknown. The error of this
            forecast is the noise floor, a lower bound that no model beats reliably. A model that
            sees only noisy sources may not be able to reach it.
        alignment: (N, T) index of the source step that determines each target step, or None if the
            task has no alignment. The index is -1 at padding, and for a target step that no single
            source step determines.
        target_features: names of the target features; if empty, the source features are used.
        last_steps: (N,) time of the last step in each source, as numbers or dates, or None if steps
            are counted from 1.
        spacing: step interval of each sequence, or None if steps are counted from 1.
        source_observed: mask (N, S, F) that is True at observed source cells and False at filled
            cells and padding, or None if all valid source cells were observed.
        target_observed: mask (N, T, F) that is True at observed target cells, or None if all valid
            target cells were observed. The values of unobserved target cells are ignored and may be
            NaN.

        links: known links between target steps and source steps, or None. `alignment` has the sure
            links of the target steps that have one sure link.
        source_space: what a source step is, by default a vector that is not scaled.
        target_space: what a target step is, by default a vector that is not scaled.
        target_texts: (N,) text of each target with symbols that the vocabulary lacks, and None for
            the other targets; or None if these texts are not known.

    Raises:
        DataError: if a source has no steps, if a length is greater than S or T, or if a value is
            not finite, except in unobserved target cells.
        ValueError: if the shapes of the arrays disagree. The shapes of `labels`, `ideal`,
            `last_steps` and `spacing` are not checked.
    """

    source: NDArray[Any]
    source_lengths: Integers
    target: NDArray[Any]
    target_lengths: Integers
    features: tuple[str, ...]
    ids: Sequence[str]
    labels: tuple[str, ...] = ()
    ideal: Floats | None = None
    alignment: Integers | None = None
    target_features: tuple[str, ...] = ()
    last_steps: NDArray[np.generic] | None = None
    spacing: Spacing | None = None
    source_observed: NDArray[np.bool_] | None = None
    target_observed: NDArray[np.bool_] | None = None
    links: Links | None = None
    source_space: Space = NO_SPACE
    target_space: Space = NO_SPACE
    target_texts: NDArray[np.object_] | None = None

    def __post_init__(self) -> None:
        if not self.target_features:
            object.__setattr__(self, "target_features", self.features)
        if self.source_space is NO_SPACE:
            object.__setattr__(self, "source_space", Vectors.unscaled(self.features))
        if self.target_space is NO_SPACE:
            object.__setattr__(self, "target_space", Vectors.unscaled(self.target_features))
        N, S, F = self.source.shape
        _, T, _ = self.target.shape
        if self.target.shape != (N, T, len(self.target_features)) or len(self.features) != F:
            raise ValueError("source, target and features disagree on N or F")
        if len(self.ids) != N or (self.alignment is not None and self.alignment.shape != (N, T)):
            raise ValueError("ids and alignment disagree with source and target on N or T")
        for observed, shape in (
            (self.source_observed, (N, S, F)),
            (self.target_observed, self.target.shape),
        ):
            if observed is not None and observed.shape != shape:
                raise ValueError(f"observed cells must have shape {shape}, have {observed.shape}")
        self._check_points("source", self.source, self.source_lengths, 1, None)
        self._check_points("target", self.target, self.target_lengths, 0, self.target_observed)

    def _check_points(
        self, side: str, points: Floats, lengths: Integers, min_length: int,
        observed: NDArray[np.bool_] | None,
    ) -> None:  # fmt: skip
        """Check the lengths and values of all sources or all targets.

        Args:
            side: "source" or "target".
            points: (N, L, F) values.
            lengths: (N,) number of valid steps.
            min_length: minimum number of steps in a sequence.
            observed: mask (N, L, F) that is True at cells that must be finite; None for all cells.

        Raises:
            DataError: if a length is below `min_length` or above L, or if a cell that must be
                finite is not finite.
            ValueError: if `lengths` has the wrong shape.
        """
        N, max_length, _ = points.shape
        if lengths.shape != (N,):
            raise ValueError(f"{side}_lengths must have shape ({N},), has {lengths.shape}")
        wrong = np.flatnonzero((lengths < min_length) | (lengths > max_length))
        if wrong.size:
            k = int(wrong[0])
            raise DataError(
                f"sequence {self.ids[k]!r}: its {side} has {lengths[k]} points, but attention"
                f" needs {min_length} to {max_length} here."
            )
        for first, rows in row_blocks(points):
            finite = np.isfinite(rows)
            if observed is not None:
                finite |= ~observed[first : first + len(rows)]
            if not finite.all():
                k, step, feature = map(int, np.argwhere(~finite)[0])
                names = self.features if side == "source" else self.target_features
                raise DataError(
                    f"sequence {self.ids[first + k]!r}: point {step + 1} of its {side} is not"
                    f" finite in {names[feature]!r}."
                )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def source_steps(self) -> int:
        """Number of steps in each source, including padding."""
        return int(self.source.shape[1])

    @property
    def target_steps(self) -> int:
        """Number of steps in each target, including padding."""
        return int(self.target.shape[1])

    @property
    def has_equal_lengths(self) -> bool:
        """Whether no source and no target has padding."""
        return bool(
            (self.source_lengths == self.source_steps).all()
            and (self.target_lengths == self.target_steps).all()
        )

    @property
    def has_masked_sources(self) -> bool:
        """Whether there is a mask of observed source cells."""
        return self.source_observed is not None

    @property
    def has_masked_targets(self) -> bool:
        """Whether there is a mask of observed target cells."""
        return self.target_observed is not None

    def select(self, indices: slice | Integers) -> Sequences:
        """Return the sequences at the given indices."""
        chosen = range(len(self))[indices] if isinstance(indices, slice) else indices.tolist()
        return Sequences(
            self.source[indices], self.source_lengths[indices], self.target[indices],
            self.target_lengths[indices], self.features, tuple(self.ids[k] for k in chosen),
            tuple(self.labels[k] for k in chosen) if self.labels else (),
            None if self.ideal is None else self.ideal[indices],
            None if self.alignment is None else self.alignment[indices], self.target_features,
            None if self.last_steps is None else self.last_steps[indices],
            None if self.spacing is None else self.spacing.select(indices),
            None if self.source_observed is None else self.source_observed[indices],
            None if self.target_observed is None else self.target_observed[indices],
            None if self.links is None else self.links.select(indices),
            self.source_space, self.target_space,
            None if self.target_texts is None else self.target_texts[indices],
        )  # fmt: skip

    def with_spaces(self, source: Space, target: Space) -> Self:
        """Return the same sequences in other spaces. The arrays are shared."""
        found = copy.copy(self)  # the values are checked already
        object.__setattr__(found, "source_space", source)
        object.__setattr__(found, "target_space", target)
        return found

    @property
    def units(self) -> Units:
        """Unit of each feature that has a unit, by feature name."""
        return {**self.source_space.units, **self.target_space.units}

    @property
    def is_identity(self) -> bool:
        """Whether a model reads and writes the user's values themselves."""
        return self.source_space.is_identity and self.target_space.is_identity

    def sequence_scalers(self) -> tuple[Scaler, Scaler]:
        """Return the first stage of the scaling of sources and of targets, (N, 1, F), which is
        computed from the sources alone."""
        source = Scaler.identity(len(self), 1, len(self.features))
        for indices, chunk in self.chunks() if self.source_space.is_per_sequence else ():
            found = self.source_space.first_stage(
                chunk.source, chunk.source_lengths, chunk.source_cells
            )
            source.shift[indices], source.scale[indices] = found.shift, found.scale
        return source, source.reorder(source_indices_of(self.features, self.target_features))

    def encode(self, like: DTypeLike = np.float64) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the source (N, S, F) and the target (N, T, F) as a model reads them.

        Padding is 0. An unobserved target cell contains the decoder input for this cell, which is
        the last observed target value before the cell, or the last source value if there is no such
        target value. If the source lacks the feature, 0 replaces the source value. Later values are
        never used.

        Args:
            like: dtype of scaled values. Values that are not scaled keep their dtype.
        """
        source, target = self.source, self.target
        if not self.is_identity:
            of_source, of_target = self.sequence_scalers()
            source = self.source_space.encode(source, self.source_keep, of_source, like)
            target = self.target_space.encode(target, self.target_keep, of_target, like)
        if self.target_observed is not None:
            N, T, _ = target.shape
            last = source[np.arange(N), self.source_lengths - 1]
            with_zero = np.concatenate([last, np.zeros((N, 1), dtype=last.dtype)], axis=1)
            first = with_zero[:, list(source_indices_of(self.features, self.target_features))]
            known = np.concatenate([first[:, None], target], axis=1)
            step = np.where(self.target_cells, np.arange(1, T + 1)[:, None], 0)
            target = np.take_along_axis(known, np.maximum.accumulate(step, axis=1), axis=1)
            target[~self.target_keep] = 0
        return source, target

    def decode(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return forecasts (..., N, T, F) of a model for these sequences as the user's values."""
        if self.target_space.is_identity:
            return values
        return self.target_space.decode(values, self.sequence_scalers()[1])

    def target_unit(self) -> Floats:
        """Return the size (N, 1, F) of one unit of the model in the user's units, for each sequence
        and target feature."""
        return np.asarray(self.sequence_scalers()[1].scale * self.target_space.scale)

    def times(self, indices: slice) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Return the times of the source steps (n, S) and of the target steps (n, T) of the
        sequences at the given indices, or None if these times are unknown.

        Times are numbers or dates, with NaN or NaT in the padding. This class always returns None.
        A subclass with times returns None only if steps are counted from 1, or if the targets do
        not continue the sources.
        """
        return None

    def chunks(self) -> Iterator[tuple[slice, Sequences]]:
        """Yield pairs (slice of indices, sequences in memory) in order. This class yields all
        sequences as one chunk. A subclass that gathers sequences on demand yields several chunks.
        """
        yield slice(0, len(self)), self

    def observed_targets(self) -> Iterator[NDArray[np.bool_]]:
        """Yield `target_cells` chunk by chunk."""
        yield self.target_cells

    @property
    def source_keep(self) -> NDArray[np.bool_]:
        """Mask of shape (N, S) that is True at valid source steps."""
        return valid_mask(self.source_lengths, self.source.shape[1])

    @property
    def target_keep(self) -> NDArray[np.bool_]:
        """Mask of shape (N, T) that is True at valid target steps."""
        return valid_mask(self.target_lengths, self.target.shape[1])

    @property
    def source_cells(self) -> NDArray[np.bool_]:
        """Mask of shape (N, S, F) that is True at source cells that are valid and were observed."""
        if self.source_observed is not None:
            return self.source_observed
        return np.broadcast_to(self.source_keep[:, :, None], self.source.shape)

    @property
    def target_cells(self) -> NDArray[np.bool_]:
        """Mask of shape (N, T, F) that is True at target cells that are valid and were observed."""
        if self.target_observed is not None:
            return self.target_observed
        return np.broadcast_to(self.target_keep[:, :, None], self.target.shape)


class ForecastLike(Protocol):
    """Forecasts (N, T, F) that are indexed by slices of the sequences. Examples are an array, and
    an object that computes forecasts on demand."""

    def __getitem__(self, indices: slice, /) -> Floats: ...


def valid_mask(lengths: Integers, size: int) -> NDArray[np.bool_]:
    """Return a mask (N, size) that is True at the first `lengths[k]` steps of row k."""
    return np.arange(size) < lengths[:, None]


def source_keys(chunk: Sequences) -> Iterator[bytes]:
    """Yield the bytes of the symbols of each source, which are equal for equal sources."""
    rows = zip(chunk.source, chunk.source_lengths.tolist(), strict=True)
    return (row[:length].astype(np.int64).tobytes() for row, length in rows)
