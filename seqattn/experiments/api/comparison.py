"""The runs of several seeds, and a comparison of variants, opened from their folders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args, overload

from seqattn.analysis.comparison import (
    ComparisonResult,
    VariantResult,
    collect_seeds,
    describe_result,
    is_comparison,
    read_comparison,
    require_seed_folders,
)
from seqattn.analysis.comparison.formats import TableFormat, TableRows, table_text
from seqattn.analysis.comparison.statistics import PairedTest, SeedSummary
from seqattn.errors import CheckpointError, UsageError, counted
from seqattn.experiments.api import formats
from seqattn.experiments.api.arguments import DataFrame
from seqattn.experiments.api.formats import Library
from seqattn.experiments.api.run import Run, path_in_repr
from seqattn.runs import COMPARISON, RunFolder

SeedTable = Literal["seeds", "metrics", "predictions"]
ComparisonTable = Literal["variants", "pairs", "seeds", "metrics", "predictions"]


@dataclass(frozen=True)
class Seeds:
    """The runs of one config with several seeds. Some runs may be unfinished or may have diverged.

    `seeds[3]` opens the run of seed 3, `len(seeds)` is the number of seeds, and iteration yields
    the seeds.

    Attributes:
        result: the results of the seeds, as a comparison with one variant.
    """

    result: ComparisonResult

    @classmethod
    def open(cls, path: str | Path) -> Seeds:
        """Open the folder that `seqattn train --seeds` or `train_seeds` wrote, or the folder of a
        variant in a comparison.

        Raises:
            CheckpointError: if the folder does not contain the seeds of one config.
        """
        folder = Path(path)
        result = collect_seeds(folder, folder.resolve().name, require_seed_folders(folder))
        return cls(absolute_result(result))

    def __repr__(self) -> str:
        return f"<seqattn seeds {path_in_repr(self.path)!r}, {counted(len(self), 'seed')}>"

    def __len__(self) -> int:
        return len(self.variant.folders)

    def __iter__(self) -> Iterator[int]:
        return iter(self.variant.folders)

    def __getitem__(self, seed: int) -> Run:
        folders = self.variant.folders
        if seed not in folders:
            known = ", ".join(map(str, folders))
            raise UsageError(f"seed {seed!r}: {self.path} has the seeds {known}.")
        return Run.open(folders[seed].path)

    @property
    def path(self) -> Path:
        """The folder of the seeds."""
        return self.result.path

    @property
    def name(self) -> str:
        return self.variant.name

    @property
    def variant(self) -> VariantResult:
        """The run folders, summaries and diverged seeds."""
        return self.result.variants[0]

    @property
    def losses(self) -> dict[int, float]:
        """The test losses by seed: inf for a diverged seed, and no entry for an unfinished seed."""
        return self.variant.losses

    @property
    def summary(self) -> SeedSummary:
        """The median of the test losses with its 95% interval, and the best and the worst seed.

        Raises:
            UsageError: if no run has ended yet.
        """
        if self.variant.seed_summary is None:
            raise UsageError(f"{self.path}: no seed has finished.")
        return self.variant.seed_summary

    @property
    def best(self) -> Run:
        """The run with the lowest test loss."""
        return self[self.summary.best_seed]

    def to_dataframe(
        self, table: SeedTable = "seeds", *, library: Library | None = None
    ) -> DataFrame:
        """Return a table of the seeds as a DataFrame.

        Args:
            table: "seeds" has a row for each seed, as in the `seeds.csv` of a comparison. "metrics"
                has a row for each seed and epoch. "predictions" has a row for each test sequence,
                target step and target feature of each finished seed; see `Run.to_dataframe`.
            library: "pandas" or "polars"; None for pandas, or polars if pandas is not installed.

        Raises:
            UsageError: if the library is not installed, or if the table is unknown.
            CheckpointError: if a file cannot be read.
        """
        columns = formats.table_columns(self.result, table, get_args(SeedTable))
        return formats.make_frame(columns, library)

    def table(self, table_format: TableFormat = "markdown") -> str:
        """Return the table that `seqattn table` prints.

        Args:
            table_format: "latex", "markdown" or "csv".
        """
        return table_text(self.result, table_format, "variants")

    def _repr_html_(self) -> str:
        title = f"{self.name}: {counted(len(self), 'seed')}"
        pictures = {"comparison.png": "test losses", "attention.png": "median attention weights"}
        return formats.result_html(self.result, title, pictures)


@dataclass(frozen=True)
class Comparison:
    """A comparison of variants of a config over many seeds. It may be unfinished.

    `comparison["dot"]` opens the seeds of the variant `dot`, `len(comparison)` is the number of
    variants, and iteration yields the names of the variants.

    Attributes:
        result: the results of the variants, and the tests of pairs of variants.
    """

    result: ComparisonResult

    @classmethod
    def open(cls, path: str | Path) -> Comparison:
        """Open the folder that `seqattn compare` or `compare` wrote.

        Raises:
            CheckpointError: if the folder is not the folder of a comparison, or if a run in it does
                not belong to the comparison.
        """
        folder = Path(path)
        if not (folder / COMPARISON).is_file():
            raise CheckpointError(f"{folder}: is not the folder of a comparison (no {COMPARISON}).")
        return cls(absolute_result(read_comparison(folder)))

    def __repr__(self) -> str:
        variants = counted(len(self), "variant")
        return f"<seqattn comparison {path_in_repr(self.path)!r}, {variants}>"

    def __len__(self) -> int:
        return len(self.result.variants)

    def __iter__(self) -> Iterator[str]:
        return (variant.name for variant in self.result.variants)

    def __getitem__(self, name: str) -> Seeds:
        found = {variant.name: variant for variant in self.result.variants}
        if name not in found:
            raise UsageError(f"variant {name!r}: {self.path} has {', '.join(found)}.")
        folders = found[name].folders
        if not folders:
            raise UsageError(f"variant {name!r}: no seed has been started.")
        return Seeds(collect_seeds(self.path / name, name, folders))

    @property
    def path(self) -> Path:
        """The folder of the comparison."""
        return self.result.path

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def pairs(self) -> tuple[PairedTest, ...]:
        """The tests of pairs of variants. Two variants are tested if they have losses in the same
        unit, at least two common seeds and, in a comparison with `along`, the same value of its
        key."""
        return self.result.pairs

    @property
    def conclusions(self) -> list[str]:
        """The results as sentences: the tests of the pairs, and the limits of the comparison."""
        return describe_result(self.result)

    def to_dataframe(
        self, table: ComparisonTable = "variants", *, library: Library | None = None
    ) -> DataFrame:
        """Return a table of the comparison as a DataFrame.

        Args:
            table: "variants", "pairs" and "seeds" have the columns and numbers of `variants.csv`,
                `pairs.csv` and `seeds.csv`. "metrics" has a row for each variant, seed and epoch.
                "predictions" has a row for each test sequence, target step and target feature of
                each finished run; see `Run.to_dataframe`.
            library: "pandas" or "polars"; None for pandas, or polars if pandas is not installed.

        Raises:
            UsageError: if the library is not installed, or if the table is unknown.
            CheckpointError: if a file cannot be read.
        """
        columns = formats.table_columns(self.result, table, get_args(ComparisonTable))
        return formats.make_frame(columns, library)

    def table(self, table_format: TableFormat = "markdown", rows: TableRows = "variants") -> str:
        """Return the table that `seqattn table` prints.

        Args:
            table_format: "latex" for a booktabs table, "markdown", or "csv" with all digits.
            rows: "variants", "runs" or "pairs".
        """
        return table_text(self.result, table_format, rows)

    def _repr_html_(self) -> str:
        pictures = {
            "comparison.png": "test losses by variant",
            "attention.png": "median attention weights by variant",
        }
        title = f"{self.name}: {counted(len(self), 'variant')}"
        return formats.result_html(self.result, title, pictures)


@overload
def load(path: str | Path, *, epoch: int) -> Run: ...
@overload
def load(path: str | Path, *, epoch: None = None) -> Run | Seeds | Comparison: ...
def load(path: str | Path, *, epoch: int | None = None) -> Run | Seeds | Comparison:
    """Open a trained run, several seeds or a comparison.

    `Run.open`, `Seeds.open` and `Comparison.open` each open only one kind of folder, so a type
    checker knows the type of the result.

    Args:
        path: a checkpoint file, a run folder, the folder of several seeds, or the folder of a
            comparison. For a run folder, the best checkpoint is opened.
        epoch: number of a recorded epoch of a run (see `training.record_attention`), where 0 is the
            model before training; None for the epoch of the checkpoint.

    Raises:
        CheckpointError: if there is no checkpoint, or if a file is damaged.
        UsageError: if `epoch` was not recorded, or was given for a path that is not a run folder.
    """
    folder = RunFolder(Path(path))
    if not folder.path.is_dir() or folder.is_run or not is_comparison(folder.path):
        return Run.open(path, epoch=epoch)
    if epoch is not None:
        raise UsageError(f"epoch {epoch}: {path} is not a run folder. Open one of its runs.")
    has_manifest = (folder.path / COMPARISON).is_file()
    return Comparison.open(path) if has_manifest else Seeds.open(path)


def absolute_result(result: ComparisonResult) -> ComparisonResult:
    """Return results whose paths are absolute, so that they do not depend on the working
    directory."""
    variants = tuple(
        replace(variant, folders={
            seed: RunFolder(folder.path.absolute()) for seed, folder in variant.folders.items()
        })
        for variant in result.variants
    )  # fmt: skip
    return replace(result, path=result.path.absolute(), variants=variants)
