"""Tasks of language from the command line: training, translation, evaluation and refusals."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import seqattn as seqattn_package
from seqattn.analysis.evaluation.texts import translate
from seqattn.config import resolve
from seqattn.config.shipped_configs import find_config
from seqattn.data import Sequences, load_data
from seqattn.data.measures import (
    BIGRAMS,
    COPY,
    FREQUENCIES,
    FREQUENT_TARGET,
    OutputCounts,
    TokenScores,
    edit_distances,
    losses_of_ngrams,
    measures_of_rules,
    sequence_errors,
)
from seqattn.data.tokens import END, PAD, SPECIAL, UNKNOWN, Tokens
from seqattn.errors import UsageError
from seqattn.experiments.verify_resume import verify_resume
from seqattn.runs import RunFolder
from seqattn.runs.array_files import select_sequences
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]
SETS = ("data.n_train=1500", "data.n_validation=60", "data.n_test=80",
        "model.hidden_dim=24", "model.attention={score: dot}", "training.epochs=3",
        "training.batch_size=30", "training.learning_rate=0.02",
        "training.teacher_forcing.probability=1")  # fmt: skip
OPTIONS = [each for one in SETS for each in ("--set", one)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("words")


@pytest.fixture
def run(home: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that has learned to translate most sentences."""
    monkeypatch.chdir(home)
    folder = RunFolder(home / "outputs" / "words")
    if not folder.is_run:
        done = seqattn("train", "grammar", "--name", "words", *OPTIONS, "--quiet")
        assert done.code == 0, done.err
    return folder


def test_lines_are_translated_and_measures_are_reported(
    run: RunFolder, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = run.read_summary()
    assert summary["loss_name"] == "cross-entropy"
    assert summary["beats_best_baseline"]
    done = seqattn("evaluate", run.path, "--json")
    measures = json.loads(done.out)["measures"]
    assert measures == summary["measures"]
    assert measures["exact_match"] > 0.5 > measures["symbol_error_rate"]
    assert measures["perplexity"] == pytest.approx(np.exp(summary["test_loss"]))
    # The outputs of the test sentences, asked for as lines, are those of the run.
    predictions = run.read_predictions()
    words = [[predictions[f"{side}_vocabulary"][int(k)] for k in row[np.isfinite(row)] if k > 3]
             for side, rows in (("source", predictions["source"]),
                                ("target", predictions["forecast"]))
             for row in rows[:, :, 0]]  # fmt: skip
    n = len(predictions["ids"])
    lines = [" ".join(each) for each in words]
    (run.path.parent / "lines.txt").write_text("\n".join(lines[:n]) + "\n")
    done = seqattn("predict", run.path, "--input", run.path.parent / "lines.txt")
    found = done.out.splitlines()
    assert found == lines[n:]
    true = [[predictions["target_vocabulary"][int(k)] for k in row[np.isfinite(row)] if k > 3]
            for row in predictions["target"][:, :, 0]]  # fmt: skip
    exact = np.mean([line == " ".join(each) for line, each in zip(found, true, strict=True)])
    assert exact == measures["exact_match"]
    lines_of = [" ".join(each) for each in true]
    distance = sum(map(plain_distance, map(str.split, found), map(str.split, lines_of)))
    assert distance / sum(map(len, true)) == pytest.approx(measures["symbol_error_rate"])
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{lines[0]}\n"))
    assert seqattn("predict", run.path).out == f"{found[0]}\n"
    assert seqattn("predict", run.path, "--example", "0").out == f"{found[0]}\n"


def test_unknown_symbols_and_empty_lines_are_named(
    run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("the zebra saw a man\n")
    done = seqattn("predict", run.path, "--input", file)
    assert done.code == 0
    assert "1 symbol unknown to the model: 'zebra'" in done.err
    assert "more than a third" not in done.err
    file.write_text("the man saw a dog\n\n")
    done = seqattn("predict", run.path, "--input", file)
    assert done.code == 3
    assert "line 2: is empty" in done.err
    file.write_bytes(b"caf\xe9\n")
    done = seqattn("predict", run.path, "--input", file)
    assert "line 1: is not utf-8 text" in done.err and "Convert the file to UTF-8." in done.err
    done = seqattn("predict", run.path, "--input", tmp_path / "none.txt")
    assert done.code != 0 and "none.txt" in done.err


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".zst", ".txt"])
def test_lines_are_read_as_training_files_are(
    suffix: str, run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    """Compressed, or in UTF-16."""
    text = "the man saw a dog\r\na dog saw the man\n"
    plain, file = tmp_path / "plain.txt", tmp_path / f"lines{suffix}"
    plain.write_text(text)
    encoded = text.encode("utf-16" if suffix == ".txt" else "utf-8")
    compress = {".gz": gzip.compress, ".xz": lzma.compress, ".txt": bytes,
                ".zst": lambda content: pa.compress(content, codec="zstd", asbytes=True)}  # fmt: skip
    file.write_bytes(compress[suffix](encoded))
    found, expected = (seqattn("predict", run.path, "--input", one) for one in (file, plain))
    assert found.code == 0 and found.out == expected.out
    assert len(found.out.splitlines()) == 2


def test_a_report_has_the_vocabularies(run: RunFolder, seqattn: Command) -> None:
    done = seqattn("report", run.path, "--output", "words.html")
    assert done.code == 0, done.err
    page = Path("words.html").read_text()
    for space in seqattn_package.load(run.path).trained.spec.tokens:
        assert [word for word in space.symbols[len(SPECIAL) :] if f'"{word}"' not in page] == []


def test_sources_unlike_those_of_the_training_are_noted_once(run: RunFolder) -> None:
    trained = seqattn_package.load(run.path).trained
    longest = trained.spec.source_length
    lines = [
        "the zebra q",
        "the q",
        "the man saw the q",
        "the q zebra",
        *["the " * (longest + 3)] * 2,
    ]
    notes = list[str]()
    assert len(list(translate(trained, lines, None, notes.append, at_once=1))) == len(lines)
    long, _, strange = notes
    assert long.startswith("Longer than all training sequences: 2 of 6 sources")
    assert "3 lines with more than a third of unknown symbols" in strange


def test_lines_are_drawn(run: RunFolder, seqattn: Command) -> None:
    Path("lines.txt").write_text("the dog sees a xyz\n")
    done = seqattn("plot-attention", run.path, "--input", "lines.txt", "--terminal")
    assert done.code == 0, done.err
    assert "1 symbol unknown to the model: 'xyz'" in done.err
    assert "<end>" in done.out
    done = seqattn("plot-attention", run.path, "--input", "lines.txt", "--set", "data.time=t")
    assert done.code == 2
    assert "lines of text are read as the model was trained" in done.err


def test_texts_from_python(run: RunFolder) -> None:
    opened = seqattn_package.load(run.path)
    vocabulary = opened.trained.spec.source
    texts = [vocabulary.text(row) for row in opened.data.test.source[:3]]
    forecast = run.read_predictions()["forecast"][:3]
    expected = [opened.trained.spec.target.text(row[np.isfinite(row)]) for row in forecast]
    assert opened.predict(texts) == expected
    assert opened.predict(texts[0]) == expected[0]
    outputs = opened.translate(texts, beam=3, n_best=2)
    assert [one.line for one in outputs] == [1, 1, 2, 2, 3, 3]
    first = outputs[0]
    assert first.weights is not None
    assert first.weights.shape == (len(first.target), len(first.source))
    assert opened.translate(texts)[1].text == expected[1]
    weights = opened.attention(texts[0])["cross"]
    assert weights.shape[2:] == (len(expected[0].split()) + 1, len(texts[0].split()))
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    figure = opened.plot_attention(texts[1])
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == [*expected[1].split(), "<end>"]
    figure = opened.plot_attention([2, 0])
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert labels[: len(texts[0].split())] == texts[0].split()
    with pytest.raises(UsageError, match="Give a string, or a list of strings"):
        opened.predict([[1.0, 2.0]])


def test_weights_need_the_same_case() -> None:
    first, second = (Tokens((*SPECIAL, "a"), "word", lowercase) for lowercase in (False, True))
    assert first.needed_by_weights("source") != second.needed_by_weights("source")


def test_links_follow_selected_sequences() -> None:
    links = np.array([[0, 1, 1, 1], [2, 0, 3, 0], [2, 1, 1, 1]])
    found = select_sequences({"ids": np.array(["a", "b", "c"]), "links": links}, [2, 1, 0])
    assert found["ids"].tolist() == ["c", "b", "a"]
    assert found["links"].tolist() == [[0, 0, 3, 0], [0, 1, 1, 1], [2, 1, 1, 1]]


def test_training_starts_from_the_weights_of_a_run(run: RunFolder, seqattn: Command) -> None:
    start = f"training.start_from={run.path}"
    sets = [*OPTIONS, "--set", "training.epochs=1", "--set", "training.learning_rate=1e-9"]
    done = seqattn("train", "grammar", "--name", "more", *sets, "--set", start, "--quiet")
    assert done.code == 0, done.err
    found, before = (RunFolder(path).read_summary()["measures"]
                     for path in (run.path.parent / "more", run.path))  # fmt: skip
    for name in ("exact_match", "symbol_error_rate", "perplexity"):
        assert found[name] == pytest.approx(before[name], rel=1e-3)
    Path("pairs.tsv").write_text("".join(f"the dog {k}\twa {k}\n" for k in range(40)))
    data = f"data={{kind: text, path: {Path.cwd() / 'pairs.tsv'}}}"
    done = seqattn(
        "train", "grammar", "--name", "other", *OPTIONS[6:], "--set", data, "--set", start
    )
    assert done.code == 2
    assert "the vocabulary of the source" in done.err


@pytest.mark.parametrize("task", ["dates", "numbers", "grammar"])
def test_a_written_task_is_read_with_its_links(
    task: str, seqattn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = seqattn("data", "sample", task, "--output", "pairs.tsv", "--set", "data.n_train=300")
    assert done.code == 0, done.err
    Path("c.yaml").write_text(f"name: c\n{done.out}\n")
    read = load_data(resolve(Path("c.yaml"), []).config.data)
    made = load_data(resolve(find_config(Path(task)), ["data.n_train=300"]).config.data).train
    known = dict(pairs_with_links(made))
    found = [
        one for part in (read.train, read.validation, read.test) for one in pairs_with_links(part)
    ]
    assert len(found) == 300
    assert all(known[texts] == links for texts, links in found)
    refused = seqattn("data", "sample", task, "--output", "pairs.csv")
    assert refused.code == 2
    assert "which a .tsv file contains" in refused.err


def pairs_with_links(part: Sequences) -> Iterator[tuple[tuple[str, str], set[tuple[int, ...]]]]:
    assert part.links is not None
    rows = zip(part.source, part.source_lengths, part.target, part.links, strict=True)
    for source, n, target, links in rows:
        texts = part.source_space.text(source[:n]), part.target_space.text(target)
        yield texts, {tuple(map(int, one)) for one in zip(*links, strict=True)}


def test_pairs_are_evaluated(run: RunFolder, seqattn: Command) -> None:
    """The test part, written to a file and read again, with one word unknown and one long pair."""
    sets = [option for one in ("n_train=1500", "n_validation=60", "n_test=80")
            for option in ("--set", f"data.{one}")]  # fmt: skip
    done = seqattn("data", "sample", "grammar", "--part", "test", "--output", "test.tsv", *sets)
    assert done.code == 0, done.err
    done = seqattn("evaluate", run.path, "--input", "test.tsv", "--json")
    assert done.code == 0, done.err
    scored, measures = json.loads(done.out), run.read_summary()["measures"]
    links = json.loads(seqattn("evaluate", run.path, "--json").out)["alignment"]
    assert scored["alignment"]["aer"] == pytest.approx(links["aer"])
    for name in ("exact_match", "symbol_error_rate", "perplexity"):
        assert scored["measures"][name] == pytest.approx(measures[name], rel=1e-5)
    with Path("test.tsv").open("a") as file:
        file.write("the xyz\twa\t\n\twa\t\n")
    done = seqattn("evaluate", run.path, "--input", "test.tsv")
    assert done.code == 0, done.err
    assert "unknown to the model: 1 symbol of the sources" in done.err
    assert "1 pair left out with an empty side" in done.err
    for words, message in ((["--set", "data.time=t"], "read as in the training"),
                           ([], "81 sequences of test.tsv")):  # fmt: skip
        done = seqattn("evaluate", run.path, "--input", "test.tsv", *words)
        assert message in " ".join((done.out + done.err).split())
    Path("none.tsv").write_text("source\ttarget\n\tb\n")
    assert "has no usable pair" in seqattn("evaluate", run.path, "--input", "none.tsv").err


def test_options_of_decoding_that_have_no_effect_or_no_sense(
    run: RunFolder, seqattn: Command
) -> None:
    Path("lines.txt").write_text("the dog sees a cat\n")
    for words, message in ((["--length-penalty", "3"], "needs --beam 2"),
                           (["--sampling-seed", "3"], "needs --temperature")):  # fmt: skip
        done = seqattn("predict", run.path, "--input", "lines.txt", *words)
        assert (done.code, message in done.err) == (2, True)
    opened = seqattn_package.load(run.path)
    for keywords in ({"temperature": 0.0}, {"temperature": -1.0}, {"beam": 2.5}, {"beam": 0},
                     {"beam": 2, "length_penalty": -5.0}):  # fmt: skip
        with pytest.raises(UsageError, match="expected"):
            opened.translate("the dog", **keywords)  # type: ignore[arg-type]
    assert len(opened.translate("the dog", forced="wa")) == 1
    with pytest.raises(UsageError, match="evaluate --input"):
        opened.evaluate([("a", "b")])


def test_standard_input_is_read_like_a_file(
    run: RunFolder, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = "\ufeffthe dog sees a cat\n".encode()
    Path("bom.txt").write_bytes(content)
    for raw, code in ((content, 0), (b"caf\xe9\n", 3)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw), "latin-1"))
        done = seqattn("predict", run.path)
        assert done.code == code
        assert ("unknown" in done.err) == (code == 0 and raw is not content)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content), "latin-1"))
    assert (
        seqattn("predict", run.path).out == seqattn("predict", run.path, "--input", "bom.txt").out
    )


def test_the_doctor_compares_errors_of_symbols(run: RunFolder, seqattn: Command) -> None:
    done = seqattn("doctor", run.path, "--json")
    assert done.code == 0, done.err
    findings = {each["name"]: each for each in json.loads(done.out)}
    rate = run.read_summary()["measures"]["symbol_error_rate"]
    number = findings["attention does not matter"]["number"]
    assert number.startswith(f"symbol error rate {rate:.4g} with its own weights")
    assert findings["exposure bias"]["number"].startswith(
        f"symbol error rate free running {rate:.4g}"
    )
    assert findings["alignment off by one"]["state"] != "unknown"


def test_the_output_for_a_sequence_with_replaced_weights(
    run: RunFolder, seqattn: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An output may be longer than the true target."""
    opened = seqattn_package.load(run.path)
    test = opened.data.test
    sentence = opened.trained.spec.source.text(test.source[3, : test.source_lengths[3]])
    for words, mode in (((), None), (("--attention-override", "uniform"), "uniform")):
        done = seqattn("predict", run.path, "--example", "3", *words)
        assert done.code == 0, done.err
        assert done.out.strip() == opened.predict(sentence, attention_override=mode)
    uniform = ("predict", run.path, "--attention-override", "uniform")
    lines = [sentence, opened.trained.spec.source.text(test.source[4, : test.source_lengths[4]])]
    expected = [opened.predict(line, attention_override="uniform") for line in lines]
    (tmp_path / "lines.txt").write_text("\n".join(lines) + "\n")
    done = seqattn(*uniform, "--input", tmp_path / "lines.txt")
    assert done.out.splitlines() == expected, done.err
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    assert seqattn(*uniform, "--output", tmp_path / "out.txt").code == 0
    assert (tmp_path / "out.txt").read_text().splitlines() == expected
    done = seqattn(*uniform, "--input", tmp_path / "lines.txt", "--beam", "2")
    assert done.code == 2
    assert "--beam: has no effect with --attention-override" in " ".join(done.err.split())


def test_forced_rows_apply_to_lines_by_their_numbers(
    run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    lines = ["the ship saw a tree", "the tree saw a ship"]
    (tmp_path / "lines.txt").write_text("\n".join(lines))
    rows = [{"id": "2", "step": t, "weights": [0, 0, 0, 0, 1]} for t in (1, 2, 3)]
    (tmp_path / "w.json").write_text(json.dumps({"rows": rows}))
    words = ("predict", run.path, "--input", tmp_path / "lines.txt")
    own = seqattn(*words).out.splitlines()
    done = seqattn(*words, "--attention-override", f"forced:{tmp_path / 'w.json'}")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == own[0]
    rows[0]["id"] = "3"
    (tmp_path / "w.json").write_text(json.dumps({"rows": rows}))
    done = seqattn(*words, "--attention-override", f"forced:{tmp_path / 'w.json'}")
    assert done.code == 2
    assert "no sequence has the id '3'" in " ".join(done.err.split())


def test_a_step_of_an_output_is_explained(run: RunFolder, seqattn: Command) -> None:
    predictions = run.read_predictions()
    words = predictions["target_vocabulary"]
    done = seqattn("explain", run.path, "--example", "3", "--step", "2", "--format", "json",
                   "--figure", run.path.parent / "step.png")  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["symbols"][0] == words[int(predictions["forecast"][3, 1, 0])]
    assert found["model_says"] == sorted(found["model_says"], reverse=True)
    assert sum(found["model_says"]) <= 1.0001
    assert found["said"] == pytest.approx(found["model_says"], abs=0.01)
    assert "with probability" in seqattn("explain", run.path).out
    done = seqattn("explain", run.path, "--step", "50")
    assert done.code == 2
    assert "--step 50: the output has" in done.err


def test_heatmaps_have_the_symbols_of_both_sides(run: RunFolder) -> None:
    from seqattn.plots.run_pictures import attention_panels

    predictions = run.read_predictions(3)
    arrays = {**predictions, **run.read_attention(3)}
    panel = attention_panels(arrays, ["0", "1", "2"], 3)[0]
    assert panel.column_names is not None
    assert panel.row_names is not None
    assert panel.column_names[0] in ("the", "a")
    assert len(panel.row_names) == panel.weights.shape[0]
    assert run.attention_picture.exists()
    assert run.predictions_picture.exists()


def test_other_checkpoints_have_heatmaps_with_links(
    run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    done = seqattn("plot-attention", run.last, "--examples", "2", "--output", tmp_path / "last.svg")
    assert done.code == 0, done.err
    assert "outlined: known links" in (tmp_path / "last.svg").read_text()


def test_the_terminal_shows_the_symbols_of_both_sides(run: RunFolder, seqattn: Command) -> None:
    done = seqattn("plot-attention", run.path, "--terminal", "--examples", "1")
    assert done.code == 0, done.err
    head, *rows = done.out.splitlines()[1:-2]
    predictions = run.read_predictions(1)
    source, target = (
        [str(predictions[f"{side}_vocabulary"][int(k)]) for k in row[np.isfinite(row)]]
        for side, row in (("source", predictions["source"][0, :, 0]),
                          ("target", predictions["forecast"][0, :, 0]))
    )  # fmt: skip
    assert head.split()[2] in source[0]  # as many letters as fit
    assert [row.split()[0] for row in rows if row.strip()][: len(target)] == [
        symbol[:12] for symbol in target if symbol != "<pad>"
    ]


RANDOM = ("training.batch_order=by_length", "training.feedback=sampled",
          "training.teacher_forcing.probability=0.5", "training.monitor=symbol_error_rate",
          "model.embedding={dropout: 0.2, word_dropout: 0.1}", "model.dropout=0.1")  # fmt: skip
TOKENS = (*RANDOM, "training.batch_type=tokens", "training.batch_size=150", "model.copying=true")


@pytest.mark.parametrize("sets", [(), TOKENS], ids=["plain", "tokens"])
def test_seeds_side_by_side_are_seeds_alone(
    sets: tuple[str, ...], home: Path, seqattn: Command, request: pytest.FixtureRequest
) -> None:
    folder = home / request.node.callspec.id
    options = [part for one in ("data.n_train=90", *sets) for part in ("--set", one)]
    for name, more in (("three", ["--seeds", "3"]), ("one", ["--set", "seed=24"])):
        done = seqattn("train", "grammar", "--name", name, *OPTIONS, *options,
                       *more, "--quiet", "--plots", "none", "--output-dir", folder)  # fmt: skip
        assert done.code == 0, done.err
    together = RunFolder(folder / "three" / "seed-24").read_summary()["test_loss"]
    alone = RunFolder(folder / "one").read_summary()["test_loss"]
    assert together == pytest.approx(alone, rel=1e-4)


def test_a_batch_of_tokens_that_holds_no_sequence_is_refused(home: Path, seqattn: Command) -> None:
    tokens = ("--set", "training.batch_type=tokens", "--set", "training.batch_size=3")
    done = seqattn("train", "grammar", *OPTIONS, *tokens, "--output-dir", home)
    assert done.code == 2 and "needs batch_order: by_length" in done.err
    by_length = ("--set", "training.batch_order=by_length")
    done = seqattn("train", "grammar", *OPTIONS, *tokens, *by_length, "--output-dir", home)
    assert done.code == 2 and "training.batch_size: 3 tokens are fewer than" in done.err


@pytest.mark.parametrize("more", [(), RANDOM, TOKENS], ids=["plain", "random", "tokens"])
def test_a_resumed_run_is_the_uninterrupted_run(tmp_path: Path, more: tuple[str, ...]) -> None:
    config = resolve(
        ROOT / "configs" / "grammar.yaml", [*SETS, *more, "data.n_train=120", "name=words"]
    ).config
    found = verify_resume(config, tmp_path, stops=3, message=lambda line: None)
    assert found.difference is None
    assert found.compared > 5


def test_a_section_that_does_not_fit_the_data_is_refused(seqattn: Command) -> None:
    done = seqattn("train", "squares", "--set", "model.embedding={dim: 8}")
    assert done.code == 2
    assert "the steps of these data are vectors" in done.err
    done = seqattn("train", "grammar", *OPTIONS, "--set", "model.skip=linear")
    assert done.code == 2
    assert "the steps of these data are symbols" in done.err


def test_the_monitored_measure_selects_the_best_epoch(
    run: RunFolder, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.path.parent.parent)
    options = (*OPTIONS, "--set", "training.monitor=exact_match", "--set",
               "training.early_stopping={patience: 2}", "--set", "training.epochs=6")  # fmt: skip
    done = seqattn("train", "grammar", "--name", "monitored", *options, "--quiet")
    assert done.code == 0, done.err
    folder = RunFolder(run.path.parent / "monitored")
    history, summary = folder.read_metrics(), folder.read_summary()
    exact = [record.exact_match or 0.0 for record in history]
    assert summary["best_epoch"] == 1 + exact.index(max(exact))
    assert summary["validation_loss"] == history[summary["best_epoch"] - 1].validation_loss
    assert history[0].symbol_error_rate == run.read_metrics()[0].symbol_error_rate
    done = seqattn("train", "squares", "--set", "training.monitor=exact_match")
    assert done.code == 2 and "the targets of these data are vectors" in done.err


# --- measures, by hand ----------------------------------------------------------------------------


@pytest.mark.parametrize(("found", "true", "distance"), [
    ("", "", 0), ("abc", "abc", 0), ("", "abc", 3), ("abc", "", 3), ("kitten", "sitting", 3),
    ("ab", "ba", 2), ("flaw", "lawn", 2),
])  # fmt: skip
def test_distances_by_hand(found: str, true: str, distance: int) -> None:
    assert plain_distance(found, true) == distance


def plain_distance(found: Sequence[str], true: Sequence[str]) -> int:
    """The definition: the cheapest of a deletion, an insertion and a substitution at the end."""

    @cache
    def of(i: int, j: int) -> int:
        if not (i and j):
            return i + j
        changed = of(i - 1, j - 1) + (found[i - 1] != true[j - 1])
        return min(of(i - 1, j) + 1, of(i, j - 1) + 1, changed)

    return of(len(found), len(true))


def test_distances_of_many_pairs_are_those_of_each() -> None:
    """Random sequences of 3 symbols, some empty, some without an end, with symbols after it."""
    numbers = np.random.RandomState(0)
    found, true = numbers.randint(2, 7, (300, 9)), numbers.randint(2, 7, (300, 7))
    found[:40], true[20:60, 0] = 4, END

    def before_end(row: NDArray[np.int64]) -> list[int]:
        return list(itertools.takewhile(lambda k: k not in (END, PAD), row.tolist()))

    expected = [plain_distance(before_end(a), before_end(b))
                for a, b in zip(found, true, strict=True)]  # fmt: skip
    assert edit_distances(found, true).tolist() == expected
    found, true = (np.where(one == UNKNOWN, 8, one) for one in (found, true))
    counts = OutputCounts.of(found, true)
    assert counts == (
        expected.count(0),
        300,
        sum(expected),
        sum(len(before_end(row)) for row in true),
    )


def part_of(space: Tokens, sources: list[str], targets: list[str]) -> Sequences:
    (source, lengths), (target, target_lengths) = (
        space.pad([list(text) for text in texts], ends=ends)
        for texts, ends in ((sources, False), (targets, True))
    )
    return Sequences(
        source, lengths, target, target_lengths, space.names,
        tuple(map(str, range(len(sources)))), source_space=space, target_space=space,
    )  # fmt: skip


def test_a_source_with_several_targets_counts_once_with_the_nearest() -> None:
    space = Tokens.of_symbols("abc", "character")
    sources, targets = ["ab", "c", "ab", "c"], ["abc", "a", "cc", "a"]
    part = part_of(space, sources, targets)
    outputs, _ = space.pad([list("ccb"), list("a"), list("ccb"), list("a")], ends=True)
    scores = TokenScores(part)
    for k in range(4):  # in chunks of one
        one = slice(k, k + 1)
        scores.add_free_running(one, part.select(one), outputs[one])
    # "ab" is nearest to "cc", 1 edit of 2 symbols; the two equal pairs of "c" count twice.
    assert scores.outputs == (2, 3, 1, 4)
    totals, sizes = sequence_errors(space, part, outputs)
    assert (totals.tolist(), sizes.tolist()) == ([1, 0, 0], [2, 1, 1])


def test_unknown_symbols_are_never_right_and_do_not_make_sources_equal() -> None:
    space = Tokens.of_symbols("ab", "character")
    sources, targets = ["x", "y", "a", "b"], ["a", "b", "x", "ab"]
    part = part_of(space, sources, targets)
    scores = TokenScores(part)
    scores.add_free_running(slice(0, 4), part, part.target)
    assert scores.outputs == (3, 4, 1, 5)  # all but the unknown target, each by itself
    assert sequence_errors(space, part, part.target).totals.tolist() == [0, 0, 1, 0]
    scores.add_teacher_forced(
        slice(0, 4), part, np.concatenate([part.target, part.target * 0], axis=-1)
    )
    assert scores.errors == (1 / 5, 1 / 5)  # the unknown symbol of 5; the 4 ends do not count
    assert scores.measures["token_accuracy"] == 8 / 9


def test_words_like_reserved_symbols_are_unknown(
    run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    space = Tokens.of_symbols("ab")
    assert space.numbers(["a", "<pad>", "<begin>", "<end>", "b"], ends=True).tolist() == [
        4, UNKNOWN, UNKNOWN, UNKNOWN, 5, END,
    ]  # fmt: skip
    lines, forced = tmp_path / "lines.txt", tmp_path / "forced.txt"
    lines.write_text("the ship saw a tree\n" * 3)
    forced.write_text("wa <pad>\nwa <end> o\nwa qqq\n")
    done = seqattn("predict", run.path, "--input", lines, "--forced", forced, "--scores")
    assert [row.split("\t")[1] for row in done.out.splitlines()] == [
        "wa <unknown>", "wa <unknown> o", "wa <unknown>",
    ]  # fmt: skip
    assert "3 symbols unknown to the model: '<pad>', '<end>', 'qqq'" in done.err


def test_options_without_an_effect_are_refused(
    run: RunFolder, seqattn: Command, tmp_path: Path
) -> None:
    line = tmp_path / "line.txt"
    line.write_text("the ship saw a tree\n")
    for words, message in (
        (("--example", "0", "--output", "x.csv"), "leave out --output"),
        (("--example", "0", "--steps", "2"), "leave out --output"),
        (("--input", line, "--output", "x.npz"), "written to a file .txt"),
        (("--input", line, "--forced", line, "--beam", "2"), "have no effect"),
        (("--input", line, "--forced", "-"), "give a file"),
    ):
        done = seqattn("predict", run.path, *words)
        assert done.code == 2 and message in done.err, words
    done = seqattn("predict", run.path, "--input", line, "--output", tmp_path / "out.txt")
    assert done.code == 0 and (tmp_path / "out.txt").read_text().count("\n") == 1


def test_losses_of_unigrams_and_bigrams() -> None:
    """Two symbols, a and b: counts of each by hand, with one added to each of 6 x 6 pairs."""
    space = Tokens.of_symbols("ab", "character")

    def part(*texts: str) -> Sequences:
        numbers, lengths = space.pad([list(text) for text in texts], ends=True)
        return Sequences(
            numbers, lengths, numbers, lengths, space.names, texts, source_space=space,
            target_space=space,
        )  # fmt: skip

    train, test = part("ab", "aab"), part("b")
    single, pairs = losses_of_ngrams(train, test)
    # Unigrams: a 3 + 1, b 2 + 1, end 2 + 1, and 1 for each of the other three symbols.
    assert single[FREQUENCIES] == pytest.approx(-(np.log(3 / 13) + np.log(3 / 13)) / 2)
    # Bigrams: b never begins (1 of 2 + 6), and the end follows b twice (3 of 2 + 6).
    assert pairs[BIGRAMS] == pytest.approx(-(np.log(1 / 8) + np.log(3 / 8)) / 2)
    measures = measures_of_rules(part("ab", "aab", "ab"), test)
    assert measures[COPY] == {"exact_match": 1.0, "symbol_error_rate": 0.0}
    assert measures[FREQUENT_TARGET] == {"exact_match": 0.0, "symbol_error_rate": 1.0}


def test_outputs_of_a_beam_have_scores_and_links(run: RunFolder, seqattn: Command) -> None:
    line = run.path.parent / "line.txt"
    line.write_text("the old sailor saw a red ship\n")
    predict = ("predict", run.path, "--input", line)
    greedy = seqattn(*predict, "--scores").out.rstrip("\n").split("\t")
    options = ("--beam", "4", "--n-best", "3", "--scores", "--alignment", "pharaoh")
    rows = [row.split("\t") for row in
            seqattn(*predict, *options).out.splitlines()]  # fmt: skip
    assert [row[0] for row in rows] == ["1"] * 3
    scores = [float(row[1]) for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert len({row[2] for row in rows}) == 3
    for row in rows:
        links = [pair.split("-") for pair in row[3].split()]
        assert [int(t) for _, t in links] == list(range(len(row[2].split())))
        assert {int(s) for s, _ in links} <= set(range(7))
    # The forced output has the log-probability of the greedy one, and the beam's is divided.
    forced = run.path.parent / "forced.txt"
    forced.write_text(greedy[1] + "\n")
    again = seqattn(*predict, "--forced", forced, "--scores").out
    assert again.rstrip("\n").split("\t") == greedy
    best = next(float(row[1]) for row in rows if row[2] == greedy[1])
    length = len(greedy[1].split()) + 1
    assert best == pytest.approx(float(greedy[0]) / ((5 + length) / 6) ** 0.6, abs=2e-4)
    forced.write_text("wa\nwa\n")
    assert "1 line, but there are 2 forced outputs" in seqattn(*predict, "--forced", forced).err


def test_an_interactive_answer_has_a_heatmap(
    run: RunFolder, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("the ship saw a tree\n"))
    out = seqattn("predict", run.path, "--interactive").out
    rows = out.splitlines()
    assert rows[1].split()[2:] == ["the", "ship", "saw", "a", "tree"]
    symbols = [row.split()[0] for row in rows[2:-1]]
    assert symbols == [*rows[0].split(), "<end>"]
    assert rows[-1].endswith("greedy")


def test_options_for_symbols_are_refused_for_vectors(seqattn: Command, attention_run: Path) -> None:
    done = seqattn("predict", attention_run, "--beam", "2")
    assert done.code == 2 and "--beam: applies to models of symbols" in done.err
    done = seqattn("evaluate", attention_run, "--temperature", "1")
    assert done.code == 2 and "are for symbols" in done.err


def test_alignment_is_that_of_the_forced_pass(run: RunFolder, seqattn: Command) -> None:
    """`evaluate` and the summary say the same, and a beam changes outputs but not alignment."""
    scored = json.loads(seqattn("evaluate", run.path, "--json").out)
    beam = json.loads(seqattn("evaluate", run.path, "--json", "--beam", "3").out)
    assert (scored["decoding"], beam["decoding"]) == ("greedy", "beam of 3, length penalty 0.6")
    rules = scored["alignment"].pop("baselines")
    assert scored["alignment"] == run.read_summary()["alignment"]
    assert beam["alignment"].pop("baselines") == rules
    assert beam["alignment"] == scored["alignment"]
    assert scored["alignment"]["aer"]["0"] < rules["uniform"]["aer"]["0"]
    assert set(scored["alignment"]["kinds"]) >= {"noun", "verb", "adjective"}


def test_files_of_a_run_have_whole_outputs_links_and_vocabularies(run: RunFolder) -> None:
    predictions, attention = run.read_predictions(), run.read_attention()
    outputs = run.outputs.read_text().splitlines()
    vocabulary = json.loads(run.target_vocabulary.read_text())["symbols"]
    assert vocabulary == predictions["target_vocabulary"].tolist()
    lengths = set[bool]()
    for k, line in enumerate(outputs):
        numbers = predictions["forecast"][k, :, 0]
        numbers = numbers[np.isfinite(numbers)].astype(int)
        assert line.split() == [vocabulary[n] for n in numbers if n != END]
        rows = np.isfinite(attention["weights"][k, 0, 0, :, 0]).sum()
        assert rows == attention["target_lengths"][k] == len(numbers)  # up to the output's own end
        lengths.add(len(numbers) == predictions["target_lengths"][k])
    assert len(outputs) == len(predictions["ids"]) and True in lengths
    sequence, target, source, sure = attention["links"].T
    assert (target < predictions["target_lengths"][sequence] - 1).all()
    assert (source < predictions["source_lengths"][sequence]).all() and set(sure) == {0, 1}


def test_known_links_are_outlined_where_the_output_is_right(run: RunFolder) -> None:
    from seqattn.plots.run_pictures import attention_panels

    arrays = {**run.read_predictions(), **run.read_attention()}
    n = len(arrays["ids"])
    panels = attention_panels(arrays, arrays["ids"].tolist(), n)
    right = [np.array_equal(a, b, equal_nan=True)
             for a, b in zip(arrays["forecast"], arrays["target"], strict=True)]  # fmt: skip
    assert [panel.links is not None for panel in panels] == right
    for k, panel in enumerate(panels):
        if panel.links is not None:
            assert panel.links.tolist() == arrays["links"][arrays["links"][:, 0] == k, 1:].tolist()
