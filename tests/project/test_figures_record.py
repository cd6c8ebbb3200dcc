"""The measured figures in README.md, docs/ and configs/ are those that their commands gave."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("figures", ROOT / "scripts/figures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = load_script()


def plan_and_record() -> tuple[dict[str, Any], dict[str, Any]]:
    plan = figures.expanded(yaml.safe_load(figures.PLAN.read_text()))
    return plan, figures.json.loads(figures.RECORD.read_text())


def test_the_pages_have_the_recorded_figures() -> None:
    assert list(figures.problems(*plan_and_record())) == []


@pytest.mark.parametrize(
    ("page", "before", "after", "words"),
    [
        ("README.md", "{model:.4f} │", "0.0042 │", "README.md: has other figures than"),
        ("README.md", "docs/images/attention.png", "docs/images/other.png", "no command makes docs/images/other.png"),
        ("docs/tasks.md", "# Tasks", "| a | b |\n| --- | --- |\n| x | 0.5 |\n\n# Tasks", "no command makes the table | a | b |"),
        ("configs/squares.yaml", "{squares_median:.3f} (", "0.1 (", "configs/squares.yaml: has other"),
    ],
)  # fmt: skip
def test_a_figure_changed_by_hand_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, before: str, after: str, words: str
) -> None:
    plan, record = plan_and_record()
    for name in ("README.md", "docs", "configs"):
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, tmp_path / name)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    moved = [tmp_path / path.relative_to(ROOT) for path in figures.PAGES]
    monkeypatch.setattr(figures, "PAGES", moved)
    values = {key: value for group in record.values() for key, value in group["values"].items()
              if group in (record["squares"], record["ten-seeds"])}  # fmt: skip
    text, old = (tmp_path / page).read_text(), before.format(**values)
    assert old in text
    (tmp_path / page).write_text(text.replace(old, after, 1))
    found = list(figures.problems(plan, record))
    assert any(words in line for line in found), found


def test_a_picture_that_was_replaced_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, record = plan_and_record()
    record["squares"]["pictures"]["docs/images/attention.png"] = "0" * 64
    (line,) = figures.problems(plan, record)
    assert line == "docs/images/attention.png: is not the picture that was made for squares"


def test_only_code_makes_a_figure_stale() -> None:
    one = 'def f(x: int) -> int:\n    """Says."""\n    if not x:\n        raise KeyError("x")\n    return 1  # why\n'
    digest = figures.of_results(one)
    for old, new in (("Says", "Other words"), ("# why", ""), ('"x"', '"no x"'), ("-> int", "")):
        assert figures.of_results(one.replace(old, new)) == digest
    for old, new in (("return 1", "return 2"), ("not x", "x"), ('raise KeyError("x")', "pass")):
        assert figures.of_results(one.replace(old, new)) != digest


def test_sentences_and_tables_of_a_comparison(tmp_path: Path) -> None:
    (tmp_path / "comparison.md").write_text(
        "| variant | median | worst |\n| --- | ---: | ---: |\n| dot | 1 | 2 |\n| scaled_dot | 3 | 4 |\n"
        "\n- dot is better than scaled_dot.\n- 3 seeds of dot.\n\n"
        "| first | second |\n| --- | --- |\n| dot | scaled_dot |\n"
    )
    table = figures.comparison_table(
        {"table": "comparison.md", "columns": ["variant", "worst"]}, tmp_path
    )
    assert table == "| variant | worst |\n| --- | ---: |\n| dot | 2 |\n| scaled_dot | 4 |"
    sentences = figures.comparison_sentences(
        {"sentences": "comparison.md", "pairs": [["scaled_dot", "dot"]]}, tmp_path
    )
    assert sentences == "- dot is better than scaled_dot."


def test_settings_before_a_command_are_its_environment(tmp_path: Path) -> None:
    assert figures.run("SEQATTN_SETTING='two words' printenv SEQATTN_SETTING", tmp_path) == (
        "two words\n"
    )


def test_every_figure_names_its_processor() -> None:
    _, record = plan_and_record()
    assert [name for name, group in record.items() if not group.get("processor")] == []


def test_values_are_read_from_json_csv_and_output(tmp_path: Path) -> None:
    for k, loss in enumerate((0.5, 0.1, 0.3)):
        (tmp_path / f"seed-{k}").mkdir()
        (tmp_path / f"seed-{k}/summary.json").write_text(f'{{"rmse": {{"this model": [{loss}]}}}}')
    (tmp_path / "variants.csv").write_text("variant,median\na,1.5\nb,2.5\n")
    key = ["rmse", "this model", 0]
    read = figures.read_value
    for reduce, expected in (("median", 0.3), ("min", 0.1), ("max", 0.5)):
        spec = {"file": "seed-*/summary.json", "key": key, "reduce": reduce}
        assert read(spec, tmp_path, []) == expected
    spec = {"file": "variants.csv", "where": {"variant": "b"}, "key": "median"}
    assert read(spec, tmp_path, []) == 2.5
    assert read({"command": 0, "match": r"error: (\S+) by"}, tmp_path, ["error: 0.25 by"]) == 0.25
    with pytest.raises(SystemExit, match="nothing was found"):
        read({"file": "no-*.json", "key": key}, tmp_path, [])
