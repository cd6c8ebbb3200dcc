"""A comparison of variants over many seeds, opened from its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from seqattn.errors import CheckpointError, UsageError, counted
from seqattn.experiments.api import dataframes, html
from seqattn.experiments.api.arguments import DataFrame
from seqattn.experiments.api.dataframes import Library
from seqattn.experiments.api.paths import absolute_result, path_in_repr
from seqattn.experiments.api.seeds import Seeds
from seqattn.runs import COMPARISON

if TYPE_CHECKING:
    from seqattn.analysis.comparison import ComparisonResult
    from seqattn.analysis.comparison.formats import TableFormat, TableRows
    from seqattn.analysis.comparison.statistics import PairedTest

ComparisonTable = Literal["variants", "pairs", "seeds", "metrics", "predictions"]
TABLES: tuple[ComparisonTable, ...] = ("variants", "pairs", "seeds", "metrics", "predictions")


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
        from seqattn.analysis.comparison import read_comparison

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
        from seqattn.analysis.comparison import collect_seeds

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
        from seqattn.analysis.comparison import describe_result

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
        columns = dataframes.table_columns(self.result, table, TABLES)
        return dataframes.make_frame(columns, library)

    def table(self, table_format: TableFormat = "markdown", rows: TableRows = "variants") -> str:
        """Return the table that `seqattn table` prints.

        Args:
            table_format: "latex" for a booktabs table, "markdown", or "csv" with all digits.
            rows: "variants", "runs" or "pairs".
        """
        from seqattn.analysis.comparison.formats import table_text

        return table_text(self.result, table_format, rows)

    def _repr_html_(self) -> str:
        pictures = {
            "comparison.png": "test losses by variant",
            "attention.png": "median attention weights by variant",
        }
        title = f"{self.name}: {counted(len(self), 'variant')}"
        return html.result_html(self.result, title, pictures)
