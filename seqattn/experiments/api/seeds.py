"""The runs of one config with several seeds, opened from their folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seqattn.errors import UsageError, counted
from seqattn.experiments.api import dataframes, html
from seqattn.experiments.api.arguments import DataFrame
from seqattn.experiments.api.dataframes import Library
from seqattn.experiments.api.paths import absolute_result, path_in_repr
from seqattn.experiments.api.run import Run

if TYPE_CHECKING:
    from seqattn.analysis.comparison import ComparisonResult, VariantResult
    from seqattn.analysis.comparison.formats import TableFormat
    from seqattn.analysis.comparison.statistics import SeedSummary

SeedTable = Literal["seeds", "metrics", "predictions"]
TABLES: tuple[SeedTable, ...] = ("seeds", "metrics", "predictions")


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
        from seqattn.analysis.comparison import collect_seeds, require_seed_folders

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
        columns = dataframes.table_columns(self.result, table, TABLES)
        return dataframes.make_frame(columns, library)

    def table(self, table_format: TableFormat = "markdown") -> str:
        """Return the table that `seqattn table` prints.

        Args:
            table_format: "latex", "markdown" or "csv".
        """
        from seqattn.analysis.comparison.formats import table_text

        return table_text(self.result, table_format, "variants")

    def _repr_html_(self) -> str:
        title = f"{self.name}: {counted(len(self), 'seed')}"
        pictures = {"comparison.png": "test losses", "attention.png": "median attention weights"}
        return html.result_html(self.result, title, pictures)
