"""Tables of results as LaTeX, Markdown and CSV: the numbers of the comparison, with its references."""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.analysis.comparison import read_comparison, read_results
from seqattn.analysis.comparison.formats import table_text
from seqattn.analysis.comparison.tables import markdown_table, reference_losses, variant_table
from seqattn.errors import CheckpointError, UsageError
from tests.comparisons import read_table, train_comparison, write_divergence
from tests.conftest import Ended, train_small

Command = Callable[..., Ended]
pytestmark = pytest.mark.usefixtures("no_pictures")
CONFIG = """\
name: sc
data: {kind: squares, n_train: 16, n_validation: 8, n_test: 8}
model: {kind: recurrent, hidden_dim: 2}
training: {epochs: 1, batch_size: 16}
compare:
  seeds: 6
  variants:
    scaled_dot: {model.attention.score: scaled_dot}
    plain: {model.attention: null}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_comparison(tmp_path_factory.mktemp("tables"), CONFIG)


def latex_rows(text: str) -> list[list[str]]:
    """The cells of a LaTeX table, without escapes."""
    lines = [line for line in text.splitlines() if line.endswith(r" \\")]
    plain = [re.sub(r"\\([&%#_$])|\{([\[\]*])\}", r"\1\2", line[:-3]) for line in lines]
    return [[cell.strip() for cell in line.split(" & ")] for line in plain]


def markdown_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [line[2:-2].split(" | ") for line in lines if not line.startswith("| ---")]


def test_latex_and_markdown_have_the_cells_of_the_comparison_and_its_references(
    home: Path,
) -> None:
    result = read_comparison(home)
    headings, cells = variant_table(result.variants)
    references = [[name, f"{loss:.4f}", *[""] * (len(headings) - 2)]
                  for name, loss in reference_losses(result)]  # fmt: skip
    assert references[0][0] == "noise floor"
    assert len(references) >= 3
    expected = [headings, *cells, *references]
    latex = table_text(result, "latex", "variants")
    assert latex_rows(latex) == expected
    assert markdown_rows(table_text(result, "markdown", "variants")) == expected
    lines = [line for line in latex.splitlines() if line.startswith("\\")]
    assert lines[:2] == [f"\\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}", r"\toprule"]
    assert [line for line in lines if line == r"\midrule"] == [r"\midrule"] * 2
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert r"scaled\_dot & " in latex
    assert "95\\%" in latex
    assert all(line.startswith(("%", "\\")) or line.endswith(r"\\") for line in latex.splitlines())


def test_csv_has_all_digits_of_the_files_of_the_comparison(home: Path) -> None:
    result = read_comparison(home)
    for rows, name in (("variants", "variants.csv"), ("runs", "seeds.csv"), ("pairs", "pairs.csv")):
        found = list(csv.DictReader(io.StringIO(table_text(result, "csv", rows))))
        ours = [dict(list(row.items())[1:]) for row in found if row["kind"] != "reference"]
        assert ours == read_table(home / name), rows
        place = {"variants": "median", "runs": "test_loss"}.get(rows)
        references = [(row["variant"], float(row[place])) for row in found
                      if place and row["kind"] == "reference"]  # fmt: skip
        assert references == (reference_losses(result) if place else [])


def test_a_table_of_pairs_has_minus_signs(home: Path) -> None:
    result = read_comparison(home)
    ((*_, estimate, interval, _, _, _),) = latex_rows(table_text(result, "latex", "pairs"))[1:]
    pair = result.pairs[0]
    assert pair.interval is not None
    assert estimate.replace("$-$", "-") == f"{pair.estimate:+.4f}"
    low, high = pair.interval
    assert interval.replace("$-$", "-") == f"[{low:+.4f}, {high:+.4f}]"
    assert "-" not in (estimate + interval).replace("$-$", "")


def test_names_are_escaped() -> None:
    from seqattn.analysis.comparison.formats import _ShownTable

    name = "a_b & 50% #1 $x$ {y} ~ ^ \\ <t> | [z] *\n"
    table = _ShownTable(["[name]", "loss"], [[name, "-1.5"], ["*", "-"]], [], ["two\nlines"])
    assert table.latex().splitlines()[1:] == [
        "% two?lines", r"\begin{tabular}{lr}", r"\toprule", r"{[}name{]} & loss \\", r"\midrule",
        r"a\_b \& 50\% \#1 \$x\$ \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
        r" \textless{}t\textgreater{} \textbar{} {[}z{]} {*}? & $-$1.5 \\",
        r"{*} & -- \\", r"\bottomrule", r"\end{tabular}",
    ]  # fmt: skip
    assert markdown_table(["n"], [["a_b|<i>`*&\\\n _x_"]])[-1] == (r"| a_b\|\<i>\`\*\&\\? \_x\_ |")


def test_the_command_prints_the_table_of_a_folder(home: Path, seqattn: Command) -> None:
    result = read_comparison(home)
    done = seqattn("table", home, "--format", "latex")
    assert (done.code, done.err) == (0, "")
    assert done.out == table_text(result, "latex", "variants")
    done = seqattn("table", home, "--rows", "pairs", "--format", "csv", "--output", "x.csv")
    assert (done.code, done.out, done.err) == (0, "", "Wrote x.csv\n")
    assert Path("x.csv").read_text() == table_text(result, "csv", "pairs")
    one = seqattn("table", home / "plain")
    assert markdown_rows(one.out)[1][0] == "plain"
    assert markdown_rows(one.out)[2][0] == "noise floor"


def test_a_comparison_prints_the_table_instead_of_its_own(seqattn: Command, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG.replace("seeds: 6", "seeds: 2"))
    done = seqattn("compare", "c.yaml", "--quiet", "--table", "latex")
    assert done.code == 0, done.err
    result = read_comparison(tmp_path / "outputs/sc")
    assert done.out == table_text(result, "latex", "variants")
    assert "[needs 6 seeds]" in latex_rows(done.out)[1][1]


def test_runs_are_rows_with_references_if_they_share_their_data(
    home: Path, seqattn: Command, tmp_path: Path
) -> None:
    runs = [home / "plain/seed-23", home / "scaled_dot/seed-23"]
    done = seqattn("table", *runs)
    assert done.code == 0, done.err
    headings, first, second, *references = markdown_rows(done.out)
    assert headings[:3] == ["run", "seed", "test loss"]
    losses = [read_comparison(home).variants[k].losses[23] for k in (1, 0)]
    assert [first[2], second[2]] == [f"{loss:.4f}" for loss in losses]
    assert first[0] == str(runs[0])  # the folders have one name
    assert references[0][0] == "noise floor"
    other = train_small(tmp_path, "other", "data.noise=0.3", "training.epochs=1")
    done = seqattn("table", runs[0], other, "--format", "markdown")
    assert [row[0] for row in markdown_rows(done.out)[1:]] == ["seed-23", "other"]
    assert "The variants differ in their data" in done.out


def test_diverged_and_unfinished_seeds_stay_in_the_table(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "sc"
    shutil.copytree(home, copy)
    folders = read_comparison(copy).variants[1].folders
    write_divergence(folders[23], 1, "the loss is not finite")
    folders[24].summary.unlink()
    result = read_comparison(copy)
    rows = {
        row[1]: row for row in latex_rows(table_text(result, "latex", "runs")) if row[0] == "plain"
    }
    assert rows["23"][2] == "diverged"
    assert rows["24"][2] == "--"
    assert "1 diverged, 1 unfinished" in table_text(result, "latex", "variants")
    assert "1 of 6 seeds of plain diverged" in table_text(result, "latex", "variants")


def test_folders_that_have_no_table_are_refused(
    home: Path, seqattn: Command, tmp_path: Path
) -> None:
    for words, message in (
        ([tmp_path], f"{tmp_path}: is not a run folder (no config.yaml and no environment.json)."),
        ([home, home / "plain"], f"{home}: is a comparison or a folder of seeds. Give this folder"
         " alone, or give run folders only."),
    ):  # fmt: skip
        with pytest.raises(CheckpointError, match=re.escape(message)):
            read_results(words)
    run = home / "plain/seed-23"
    with pytest.raises(UsageError, match="A run is given twice"):
        read_results([run, home / "plain/../plain/seed-23"])
    done = seqattn("table", run, "--rows", "pairs")
    assert done.code == 2
    assert "there is no pair of variants with two common seeds or more" in done.err
    done = seqattn("table", home, "--output", home / "comparison.json")
    assert done.code == 2
    assert "would replace" in done.err
