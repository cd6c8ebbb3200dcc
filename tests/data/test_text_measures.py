"""BLEU and chrF: what they compare, and what a run with subwords says of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqattn.analysis.evaluation import ReferenceLosses, evaluate
from seqattn.analysis.evaluation.load_run import load_splits, open_run
from seqattn.config import Text, resolve
from seqattn.data import Sequences, load_data
from seqattn.data.measures import TokenScores, references_of
from seqattn.data.text_measures import bleu_counts, bleu_of, measures_of_texts
from seqattn.data.tokens import Tokens
from seqattn.errors import install_command
from seqattn.experiments import train_many, train_one
from seqattn.experiments.verify_resume import verify_resume
from seqattn.runs import RunFolder
from seqattn.runs.folder import describe_monitored
from seqattn.training import objective
from tests.conftest import Ended

Command = Callable[..., Ended]


def test_bleu_and_chrf_are_those_of_sacrebleu() -> None:
    found = measures_of_texts(["the cat sat on the mat"], [["the cat sat on the mat"]])
    assert found["bleu"] == pytest.approx(100) and found["chrf"] == pytest.approx(100)
    assert found["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|")
    assert found["signatures"]["chrf"].startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|")
    # 5 of 6, 3 of 5, 2 of 4 and 1 of 3 n-grams of 1 to 4 words are right; the lengths are equal.
    other = measures_of_texts(["the cat sat on the mat"], [["the cat sat on a mat"]])
    assert other["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)
    outputs, right = ["a b c d e", "v w x y z"], ["a b c d e", "v w x y z"]
    several = measures_of_texts(outputs, [["q q q q q", right[0]], [right[1]]])
    assert several["bleu"] == pytest.approx(100) and "nrefs:var" in several["signatures"]["bleu"]
    assert measures_of_texts(["", ""], [["a"], ["b"]])["bleu"] == 0
    assert measures_of_texts([], []) == {}


def parts_of(path: Path, unit: str, **keys: object) -> Sequences:
    target = {"unit": unit, "min_count": 2, "lowercase": True}
    paths = {"validation_path": str(path.with_name("test.tsv")),
             "test_path": str(path.with_name("test.tsv"))}  # fmt: skip
    config = Text.model_validate({"path": str(path), "target": target} | paths | keys)
    return load_data(config).test


def scores_of_outputs(part: Sequences, outputs: list[str]) -> TokenScores:
    space = part.target_space
    assert isinstance(space, Tokens)
    values, _ = space.pad([space.split(output) for output in outputs], ends=True)
    scores = TokenScores(part)
    for k in range(len(part)):  # in chunks of one
        one = slice(k, k + 1)
        scores.add_free_running(one, part.select(one), values[one])
    return scores


@pytest.mark.parametrize("unit", ["word", "bpe"])
@pytest.mark.parametrize("limit", [2**22, 1])
def test_outputs_are_compared_with_the_text_of_the_file(
    tmp_path: Path, unit: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown word in an output is not that of the target; a source with two targets counts
    once, with both of them."""
    monkeypatch.setattr("seqattn.data.text.MAX_IN_MEMORY", limit)
    path = tmp_path / "train.tsv"
    path.write_text("one\tein Hund und eine Katze\ntwo\tein Hund und eine Maus\n" * 3)
    rows = [
        ("one", "ein  Hund und eine qyx"),
        ("two", "ein Hund"),
        ("one", "ein Hund und eine katze"),
    ]
    (tmp_path / "test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    part = parts_of(path, unit)
    assert part.target_texts is not None
    assert part.target_texts.tolist() == ["ein hund und eine qyx", None, None]
    assert part.select(np.array([1, 0])).target_texts.tolist() == [None, "ein hund und eine qyx"]
    scores = scores_of_outputs(part, ["ein hund und eine qyx", "ein hund", "maus"])
    assert scores.texts is not None
    unknown = "ein hund und eine <unknown>"
    if unit == "bpe":
        unknown = "ein hund und eine <unknown><unknown><unknown>"
    assert scores.texts.outputs == [unknown, "ein hund"]
    assert scores.texts.references == [
        ["ein hund und eine qyx", "ein hund und eine katze"], ["ein hund"],
    ]  # fmt: skip
    assert 0 < scores.texts.measures["bleu"] < 100


def test_characters_have_no_bleu(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    path.write_text("one\teins\n" * 3)
    (tmp_path / "test.tsv").write_text("one\teins\n")
    scores = scores_of_outputs(parts_of(path, "character"), ["eins"])
    assert scores.texts is None


def test_a_run_with_subwords_is_translated_and_measured(
    tmp_path: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["lowest", "newer", "wider", "slow", "widest", "newest", "lower", "low", "new", "wide"]
    rows = [f"{a} {b} {c} {a}\t{a} {c} {b} {a}" for a in names for b in names for c in names]
    Path("pairs.tsv").write_text("\n".join(rows) + "\n")
    side = {"unit": "bpe", "max_size": 30}
    config = {
        "name": "subwords", "data": {"kind": "text", "path": "pairs.tsv", "source": side, "target": side},
        "model": {"hidden_dim": 32, "attention": {"score": "dot"}},
        "training": {"epochs": 3, "batch_size": 32, "learning_rate": 0.01,
                     "teacher_forcing": {"probability": 1}},
    }  # fmt: skip
    Path("subwords.yaml").write_text(json.dumps(config))
    done = seqattn("train", "subwords.yaml")
    assert done.code == 0 and "BLEU: " in done.out, done.err
    run = Path("outputs/subwords")
    vocabulary = json.loads((run / "vocabulary_source.json").read_text())
    assert "▁low" in str(vocabulary)
    measures = json.loads(seqattn("evaluate", run, "--json").out)["measures"]
    assert measures == json.loads((run / "summary.json").read_text())["measures"]
    assert 20 < measures["bleu"] <= 100 and 20 < measures["chrf"] <= 100
    done = seqattn("evaluate", run)
    assert f"BLEU: {measures['bleu']:.2f} ({measures['signatures']['bleu']})" in done.out
    Path("lines.txt").write_text("low newest wider\nslowest  new\n")
    monkeypatch.setitem(sys.modules, "sentencepiece", None)  # only learning needs it
    lines = seqattn("predict", run, "--input", "lines.txt").out.splitlines()
    assert len(lines) == 2 and "▁" not in "".join(lines)
    assert set(lines[0].split()) & set(names) and not lines[0].startswith(" ")
    for text, line in zip(["low newest wider\n", "slowest  new\n"], lines, strict=True):
        Path("line.txt").write_text(text)  # padding has no effect
        assert seqattn("predict", run, "--input", "line.txt").out == f"{line}\n"
    Path("forced.txt").write_text("wider newest low\nnew slowest\n")
    options = ("--forced", "forced.txt", "--alignment", "pharaoh")
    done = seqattn("predict", run, "--input", "lines.txt", *options)
    assert done.code == 0, done.err
    text, links = done.out.splitlines()[1].split("\t")
    assert text == "new slowest"
    space = Tokens(tuple(vocabulary["symbols"]), "bpe")
    assert len(links.split()) == len(space.split(text)) > 2

    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    done = seqattn("evaluate", run, "--json")
    assert not {"bleu", "chrf", "signatures"} & json.loads(done.out)["measures"].keys()
    assert f"BLEU and chrF need sacrebleu: {install_command('text')}" in done.err.splitlines()[-1]
    assert "BLEU" not in seqattn("evaluate", run).out


def test_bleu_of_sums_is_bleu_of_all_texts() -> None:
    outputs = ["the cat sat on the mat", "a dog", "he sat on a mat in the house", ""]
    right = [["the cat sat on a mat", "a cat sat on the mat"], ["the dog runs"],
             ["he sat on a mat in a house"], ["so"]]  # fmt: skip
    parts = (slice(0, 1), slice(1, 1), slice(1, 4))
    counts = sum(bleu_counts(outputs[places], right[places]) for places in parts)
    assert bleu_of(counts.tolist()) == measures_of_texts(outputs, right)["bleu"] > 0
    assert bleu_of(bleu_counts(["q"], [["the dog"]]).tolist()) == 0


def words_config(**training: object) -> dict[str, object]:
    """Pairs of five words, of which some sources have two targets."""
    names = ["lowest", "newer", "wider", "slow", "widest", "newest", "lower", "low", "new", "wide"]
    rows = [f"{a} {b} {c} {a}\t{a} {c} {b} {a} ." for a in names for b in names for c in names[:4]]
    rows += [f"{a} {b} {c} {a}\t{a} {c} {a}" for a in names[:5] for b in names for c in names[:4]]
    Path("pairs.tsv").write_text("\n".join(rows) + "\n")
    side = {"unit": "bpe", "max_size": 30}
    return {
        "name": "words",
        "data": {"kind": "text", "path": "pairs.tsv", "source": side, "target": side},
        "model": {"hidden_dim": 32, "attention": {"score": "dot"}},
        "training": {"epochs": 8, "batch_size": 32, "learning_rate": 0.01, "monitor": "bleu",
                     "teacher_forcing": {"probability": 1}, **training},
    }  # fmt: skip


def test_the_largest_bleu_of_the_validation_part_selects_the_best_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(objective, "MAX_SEQUENCES", 7)  # several chunks
    config = resolve(words_config(early_stopping={"patience": 2})).config
    folder, _ = train_one(config, tmp_path)
    history, summary = folder.read_metrics(), folder.read_summary()
    values = [record.bleu or 0.0 for record in history]
    best = summary["best_epoch"]
    assert values[best - 1] == max(values) > values[0]
    assert len(history) in (best + 2, 8)
    assert summary["monitored"] == {"measure": "bleu", "value": max(values)}
    assert describe_monitored(summary) == f" by BLEU {max(values):.2f}"
    # The value is that of `evaluate`.
    _, trained = open_run(folder.path)
    data = load_splits(trained)
    assert references_of(data.validation), "a source has several targets"
    found = evaluate(
        trained.model, data.validation, ReferenceLosses.from_splits(data.validation, data)
    )
    assert found.as_plain()["measures"]["bleu"] == max(values)


def test_bleu_of_seeds_side_by_side_and_after_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve({**words_config(epochs=3), "seed": 24}).config
    alone, _ = train_one(config, tmp_path / "alone")
    runs = [(config.model_copy(update={"seed": seed}), RunFolder(tmp_path / f"{seed}"))
            for seed in (23, 24)]  # fmt: skip
    train_many(runs)
    one, other = ([record.bleu for record in folder.read_metrics()]
                  for folder in (alone, runs[1][1]))  # fmt: skip
    assert one == pytest.approx(other, abs=2)
    assert one[-1] > 10
    assert verify_resume(config, tmp_path / "stopped", stops=2).difference is None


def test_bleu_needs_words_and_sacrebleu(
    tmp_path: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("words.yaml").write_text(json.dumps(words_config(epochs=1)))
    done = seqattn("train", "words.yaml", "--set", "data.target={unit: character}")
    assert done.code == 2 and "training.monitor: bleu compares words" in done.err
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    done = seqattn("train", "words.yaml")
    assert done.code == 2
    assert (
        f"training.monitor: bleu needs sacrebleu, which is not installed: {install_command('text')}"
        in done.err
    )


def test_a_run_is_not_resumed_with_other_subwords(
    tmp_path: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("pairs.tsv").write_text("".join(f"low new {k}\tnew low {k}\n" for k in range(30)))
    side = {"unit": "bpe", "max_size": 30}
    config = {
        "name": "subwords", "data": {"kind": "text", "path": "pairs.tsv", "source": side, "target": side},
        "model": {"hidden_dim": 4}, "training": {"epochs": 1},
    }  # fmt: skip
    Path("subwords.yaml").write_text(json.dumps(config))
    assert seqattn("train", "subwords.yaml", "--quiet").code == 0
    more = ("train", "subwords.yaml", "--resume", "--quiet", "--set", "training.epochs=2")

    def learn_others(*_: object) -> list[str]:
        return [*"▁lownew0123456789"][::-1]

    with monkeypatch.context() as patch:
        patch.setattr("seqattn.data.text_sides.learn_subwords", learn_others)
        done = seqattn(*more)
    assert done.code == 3 and "data.source: the subwords learned from these data" in done.err
    assert seqattn(*more).code == 0
