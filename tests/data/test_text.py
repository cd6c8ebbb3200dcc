"""Pairs of texts: files as people have them, files that are wrong, and what is said about both."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import yaml
from pydantic import ValidationError
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from seqattn.config import Text
from seqattn.data import Sequences, Splits, load_data
from seqattn.data.subwords import join_subwords, learn_subwords, mark_word
from seqattn.data.text import read_pairs
from seqattn.data.text_report import has_pairs_of_texts
from seqattn.data.tokens import SPECIAL, UNKNOWN, Tokens
from seqattn.data.windows import Windows
from seqattn.errors import DataError, UsageError, install_command
from tests.conftest import ROOT, Ended

Command = Callable[..., Ended]
WORDS = [("the dog", "der hund"), ("a cat", "eine katze"), ("dogs", "hunde"), ("cats", "katzen")]


def config_of(path: Path | str, **keys: Any) -> Text:
    return Text.model_validate({"path": str(path)} | keys)


def pairs_of(path: Path | str, **keys: Any) -> list[tuple[str, str]]:
    config = config_of(path, **keys)
    return [(pair.source, pair.target) for pair in read_pairs(config, config.path, [])]


def split_of(path: Path | str, **keys: Any) -> Splits:
    return load_data(config_of(path, **{"split": {"validation": 1, "test": 1}} | keys))


def texts_of(part: Sequences) -> list[tuple[str, str]]:
    source, target = part.source_space, part.target_space
    assert isinstance(source, Tokens) and isinstance(target, Tokens)
    return [(source.text(row[:length]), target.text(other)) for row, length, other in
            zip(part.source, part.source_lengths.tolist(), part.target, strict=True)]  # fmt: skip


def whole_of(path: Path, **keys: Any) -> Sequences:
    """All pairs of a file as the training part."""
    return load_data(config_of(path, validation_path=str(path), test_path=str(path), **keys)).train


# --- files as people have them --------------------------------------------------------------------


def test_tab_separated_text_without_a_header_has_no_quotes(tmp_path: Path) -> None:
    path = tmp_path / "en-de.tsv"
    rows = [('he said "no', 'er sagte "nein'), ('"yes"', '"ja"'), ("it's", "es ist, ja")]
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    assert pairs_of(path) == rows


def test_a_header_is_one_by_its_names(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    for header, is_header in ((("source", "target"), True), (("Target", "SOURCE"), True),
                              (("en", "de"), True), (("pt_BR", "en-US"), True),
                              (("eng", "deu"), True), (("src", "tgt"), True),
                              (("Output", "input"), True), (("he", "er"), False),
                              (("the", "das"), False), (("no", "no"), False),
                              (("source", "Quelle"), False),
                              (("the dog", "der hund"), False)):  # fmt: skip
        path.write_text("\t".join(header) + "\na cat\teine katze\n")
        expected = ("a cat", "eine katze")
        if header[0] in ("Target", "Output"):
            expected = ("eine katze", "a cat")
        assert pairs_of(path) == ([] if is_header else [header]) + [expected]
    notes = list[str]()
    list(read_pairs(config_of(path), str(path), notes))
    assert notes == [f"{path}: the file has no header; columns 1 and 2 are source and target"]


def test_comma_separated_text_has_quotes_and_line_ends_in_cells(tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('id,target,source\n1,"der ""Hund"", ja","the ""dog"""\n2,"ein\nzwei",one\n')
    assert pairs_of(path) == [('the "dog"', 'der "Hund", ja'), ("one", "ein\nzwei")]
    named = pairs_of(path, source={"column": "target"}, target={"column": "source"})
    assert named[1] == ("ein\nzwei", "one")


def test_records_of_json_and_parquet(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps({"n": str(k), "de": b, "en": a})
                              for k, (a, b) in enumerate(WORDS)) + "\n\n")  # fmt: skip
    sides = {"source": {"column": "en"}, "target": {"column": "de"}}
    assert pairs_of(path, **sides) == WORDS
    parquet = tmp_path / "pairs.parquet"
    duckdb.sql(f"COPY (SELECT * FROM read_json('{path}')) TO '{parquet}'")
    assert pairs_of(parquet, **sides) == WORDS
    with pytest.raises(DataError, match=r"has 'n', 'de', 'en'. Set data.source.column"):
        pairs_of(path)
    path.write_text('{"en": "yes", "de": "ja"}\n')
    notes = list[str]()
    assert [pair.target for pair in read_pairs(config_of(path), str(path), notes)] == ["ja"]
    assert notes == [f"{path}: the fields 'en' and 'de' are source and target"]


@pytest.mark.parametrize(("suffix", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_and_parallel_files(
    tmp_path: Path, suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    for side, name in enumerate(("en", "de")):
        lines = "".join(f"{pair[side]}\r\n" for pair in WORDS)
        (tmp_path / f"train.{name}{suffix}").write_bytes(pack(lines.encode("utf-8-sig")))
    assert pairs_of(tmp_path / f"train.{{en,de}}{suffix}") == WORDS


def test_encodings(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes("größe\tsize\n“ja”\tyes\n".encode("cp1252"))
    with pytest.raises(DataError, match=r"pairs.tsv, line 1: is not utf-8 text .*cp1252"):
        pairs_of(path)
    assert pairs_of(path, encoding="cp1252") == [("größe", "size"), ("“ja”", "yes")]
    path.write_bytes("größe\tsize\n".encode("utf-16"))
    assert pairs_of(path, encoding="utf-16") == [("größe", "size")]
    with pytest.raises(DataError, match="'utf-99' is no encoding"):
        pairs_of(path, encoding="utf-99")


def test_zstandard_utf_16_and_other_separators(tmp_path: Path, seqattn: Command) -> None:
    text = "".join(f"{a}\t{b}\n" for a, b in WORDS)
    path = tmp_path / "a.tsv.zst"
    lines = tmp_path / "a.csv"
    lines.write_text(text)
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{lines}', delim='\t', header=false)) TO '{path}'"
               " (HEADER false, DELIM '\t', COMPRESSION zstd, FORMAT csv)")  # fmt: skip
    assert pairs_of(path) == WORDS
    with pytest.raises(DataError, match="Unpack it first"):
        pairs_of(path, encoding="cp1252")
    for name, separator, encoding in (("b.csv", ";", "utf-8"), ("c.csv", "\t", "utf-8"),
                                      ("d.tsv", "\t", "utf-16")):  # fmt: skip
        path = tmp_path / name
        path.write_bytes(text.replace("\t", separator).encode(encoding))
        assert pairs_of(path) == WORDS
    path = tmp_path / "f.csv"
    path.write_text("hello, world;hallo welt\ngood day, sir;guten tag\n")
    with pytest.raises(DataError, match="',' or ';' may separate the cells"):
        pairs_of(path)
    path.write_text("hello;hallo, welt\ngood day;guten tag\n")
    assert pairs_of(path)[0] == ("hello", "hallo, welt")
    path.write_text("".join(f"a{k};b{k}\n" for k in range(19)) + '"two\nlines";b\n')
    assert pairs_of(path)[-1] == ("two\nlines", "b")
    path.write_bytes(b"a,b\nc\rd,e\n")
    with pytest.raises(DataError, match="line 2: new-line character seen in unquoted field"):
        pairs_of(path)
    path = tmp_path / "e.tsv"
    path.write_bytes("caf\xe9\tKaffee\nna\xefve\tnaiv\n".encode("latin-1"))
    done = seqattn("data", "check", path, "--encoding", "latin-1")
    assert done.code == 0, done.err
    assert "encoding: latin-1" in done.out
    done = seqattn("data", "check", path, "--encoding", "latin-1", "--series", "x")
    assert done.code == 2
    assert "--series: is about tables of numbers" in done.err


def test_unicode_forms_scripts_and_letters(tmp_path: Path) -> None:
    """NFD and NFC are the same symbols; right-to-left and CJK texts are as they are."""
    path = tmp_path / "pairs.tsv"
    rows = [("Cafe\u0301", "שלום עולם"), ("Caf\u00e9", "مرحبا"), ("你好", "γειά"), ("e\u0301", "х")]
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8")
    data = whole_of(path, source={"unit": "character", "lowercase": True})
    assert texts_of(data) == [("café", rows[0][1]), ("café", rows[1][1]), rows[2], ("é", "х")]
    assert np.array_equal(data.source[0], data.source[1])
    assert data.source_lengths.tolist() == [4, 4, 2, 1]


def test_what_is_left_out_is_counted_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    lines = ["good one\tgut", "\tleer", "empty\t  ", "x " * 101 + "\tlang", "bell\x07\tton",
             *(f"{a}\t{b}" for a, b in WORDS)]  # fmt: skip
    path.write_text("\n".join(lines))
    assert texts_of(whole_of(path)) == [("good one", "gut"), *WORDS]
    data = split_of(path)
    notes = "\n".join(data.notes)
    assert f"2 pairs left out with an empty side, the first in {path}, line 2" in notes
    assert (
        f"1 pair left out with more than 100 symbols (data.max_length), the first in {path}, line 4"
        in notes
    )
    assert f"1 pair left out with a control character, the first in {path}, line 5" in notes
    ids = sorted(int(name) for part in (data.train, data.validation, data.test)
                 for name in part.ids)  # fmt: skip
    assert ids == [1, 6, 7, 8, 9]  # the numbers of the lines


# --- files that are wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.tsv", "one\ttwo\nthree\tfour\tfive\n", r"a.tsv, line 2: has 3 columns, but the first line has 2"),
    ("a.tsv", "one\ttwo\nthree\n", r"a.tsv, line 2: has 1 column, but the first line has 2"),
    ("a.tsv", "one\n", r"a.tsv, line 1: has one column"),
    ("a.tsv", "", r"a.tsv: has no pair"),
    ("a.csv", 'one,"two\n', r"a.csv: line \d: unexpected end of data"),
    ("a.jsonl", '{"a": "b"}\n', r"a.jsonl, line 1: has 1 field"),
    ("a.jsonl", '{"a": "b", "c": 3}\n', r"a.jsonl, line 1: 'c' is no text, but 3"),
    ("a.jsonl", '{"a": "b"', r"a.jsonl, line 1: is not valid JSON"),
    ("a.jsonl", '["a", "b"]\n', r"a.jsonl, line 1: expected an object"),
    ("a.parquet", "no parquet", r"a.parquet: cannot be read as Parquet"),
    ("a.tsv.gz", "no gzip", r"a.tsv.gz: is a damaged compressed file"),
    ("a.jsonl", "[" * 100_000, r"a.jsonl, line 1: is not valid JSON"),
    ("a.csv", "a,b,c\nd,e,f\n", r"a.csv: has 3 columns and no header. Set"),
    ("a.csv", "source,b,c\nd,e,f\n", r"a.csv: has 3 columns and no header"),
])  # fmt: skip
def test_wrong_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        split_of(tmp_path / name)


def test_wrong_names_and_counts(tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.de").write_text("eins\n")
    with pytest.raises(DataError, match=r"a.de: has 1 lines, fewer than .*a.en"):
        pairs_of(tmp_path / "a.{en,de}")
    with pytest.raises(DataError, match="no such file"):
        pairs_of(tmp_path / "a.{en,fr}")
    (tmp_path / "a.csv").write_text("en,de\none,eins\n")
    with pytest.raises(
        DataError, match=r"data.source.column: there is no column 'fr'; .*'en', 'de'"
    ):
        pairs_of(tmp_path / "a.csv", source={"column": "fr"})
    with pytest.raises(DataError, match="the same column"):
        pairs_of(tmp_path / "a.csv", source={"column": "de"}, target={"column": "de"})
    assert pairs_of(tmp_path / "a.csv", source={"column": "de"}) == [("eins", "one")]


# --- parts, vocabularies, links -------------------------------------------------------------------


def many(tmp_path: Path, n: int = 400) -> Path:
    """Pairs of which each source occurs twice, with two targets and a group."""
    path = tmp_path / "many.tsv"
    rows = [f"w{k % n} common\tt{k} und\tg{k % 7}" for k in range(2 * n)]
    path.write_text("source\ttarget\tgroup\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("by", ["source", "pair", "group"])
def test_parts_are_disjoint(tmp_path: Path, by: str) -> None:
    split = {"by": by, "validation": 0.2, "test": 0.25 if by != "group" else 2}
    data = split_of(many(tmp_path), split=split, group="group")
    parts = [{int(name) for name in part.ids} for part in (data.train, data.validation, data.test)]
    assert [len(part) for part in parts] == [len(data.train), len(data.validation), len(data.test)]
    assert sorted(set().union(*parts)) == list(range(2, 802))
    keys = [{{"source": (k - 2) % 400, "pair": k, "group": (k - 2) % 400 % 7}[by] for k in part}
            for part in parts]  # fmt: skip
    if by == "group":  # the file's group column counts up to 7 over all rows
        keys = [{(k - 2) % 7 for k in part} for part in parts]
    total = {"source": 400, "pair": 800, "group": 7}[by]
    sizes = {"source": (220, 80, 100), "pair": (440, 160, 200), "group": (4, 1, 2)}[by]
    assert tuple(map(len, keys)) == sizes and len(set().union(*keys)) == total
    again = split_of(many(tmp_path), split=split | {"seed": 1}, group="group")
    assert list(again.train.ids) != list(data.train.ids)


def test_words_of_a_stem_are_in_one_part(tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    names = [f"w{chr(97 + k % 26)}{chr(97 + k // 26)}t" for k in range(200)]
    ends = ("", "s", "'s", "s'", "s's", "s’")
    path.write_text("".join(f"{name}{end}\tx\n" for name in names for end in ends))
    split = {"by": "stem", "validation": 20, "test": 30}
    data = load_data(config_of(path, split=split, source={"unit": "character"}))
    stems = [{source[:4] for source, _ in texts_of(part)}
             for part in (data.train, data.validation, data.test)]  # fmt: skip
    assert [len(one) for one in stems] == [150, 20, 30]
    assert len(set.union(*stems)) == 200
    assert len(data.test) == 30 * len(ends)


def test_the_split_depends_on_neither_case_nor_unit_nor_path(tmp_path: Path) -> None:
    """The word of each part is the same in runs that are compared."""
    path, other = tmp_path / "a.tsv", tmp_path / "b.tsv"
    path.write_text("".join(f"word{k}\t{k}\nWORD{k} \t{k}\n" for k in range(50)))
    other.write_text(path.read_text())
    for by in ("source", "pair"):
        split = {"by": by, "validation": 10, "test": 10}
        first = split_of(path, split=split)
        second = split_of(other, split=split, source={"unit": "character", "lowercase": True})
        assert list(first.test.ids) == list(second.test.ids)
        assert len(first.test) == (20 if by == "source" else 10)


def test_the_vocabulary_is_that_of_the_training_part(tmp_path: Path) -> None:
    data = split_of(many(tmp_path), split={"validation": 40, "test": 40})
    space, target = data.train.source_space, data.train.target_space
    assert space.symbols[4] == "common" and len(space.symbols) == 4 + 1 + 320
    assert target.symbols[4] == "und" and len(target.symbols) == 4 + 1 + 640
    assert any("unknown: 0.00% in training, 50.00% in validation, 50.00% in test" in note
               for note in data.notes if note.startswith("source"))  # fmt: skip
    assert (data.test.source[:, 0] == UNKNOWN).all()
    small = split_of(many(tmp_path), split={"validation": 40, "test": 40},
                     source={"min_count": 3}, target={"max_size": 5})  # fmt: skip
    assert small.train.source_space.symbols[4:] == ("common",)
    assert len(small.train.target_space.symbols) == 9


def test_duplicates_across_parts_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "twice.tsv"
    path.write_text("".join(f"same\tgleich\nother{k}\tanders\n" for k in range(40)))
    by_pair = split_of(path, split={"by": "pair", "validation": 0.25, "test": 0.25})
    same = sum(source == "same" for part in (by_pair.validation, by_pair.test)
               for source, _ in texts_of(part))  # fmt: skip
    assert same and f"{same} validation or test pairs are also in the training part" in (
        by_pair.notes
    )
    assert not any("also in" in note for note in split_of(path).notes)


def test_known_links(tmp_path: Path) -> None:
    for name, lines in {"en": "the old dog\na cat\nyes\nno\n", "de": "alter hund\neine katze\nja\nnein\n",
                        "align": "0p0 1-0 2-1\n0-0 1?1\n\n0-0\n"}.items():  # fmt: skip
        (tmp_path / f"t.{name}").write_text(lines)
    data = split_of(tmp_path / "t.{en,de,align}")
    found = {}
    for part in (data.train, data.validation, data.test):
        assert part.links is not None
        for pair_id, links in zip(part.ids, part.links, strict=True):
            found[pair_id] = sorted(zip(*(one.tolist() for one in links), strict=True))
    assert found == {
        "1": [(0, 0, False), (0, 1, True), (1, 2, True)], "2": [(0, 0, True), (1, 1, False)],
        "3": [], "4": [(0, 0, True)],
    }  # fmt: skip
    (tmp_path / "t.align").write_text("0-0\n0-2\n\n\n")
    with pytest.raises(DataError, match=r"line 2: the link 0-2 names a symbol beyond the 2 source"):
        split_of(tmp_path / "t.{en,de,align}")
    (tmp_path / "t.align").write_text("0:0\n\n\n\n")
    with pytest.raises(DataError, match=r"line 1: '0:0' is no link"):
        split_of(tmp_path / "t.{en,de,align}")


def test_named_columns_are_neither_source_nor_target(tmp_path: Path) -> None:
    path = tmp_path / "links.tsv"
    path.write_text("links\ten\tde\n0-0\tyes\tja\n0-0\tno\tnein\n")
    assert pairs_of(path, alignment="links") == [("yes", "ja"), ("no", "nein")]


def test_links_of_the_test_part_only(tmp_path: Path) -> None:
    for part in ("train", "val", "test"):
        for side, word in (("en", "yes"), ("de", "ja"), ("al", "0-0")):
            (tmp_path / f"{part}.{side}").write_text(f"{word}\n")
    paths = {"validation_path": f"{tmp_path}/val.{{en,de}}",
             "test_path": f"{tmp_path}/test.{{en,de,al}}"}  # fmt: skip
    data = load_data(config_of(f"{tmp_path}/train.{{en,de}}", **paths))
    assert data.test.links is not None and data.test.links.target.tolist() == [0]
    assert data.train.links is not None and len(data.train.links.target) == 0


def test_paths_of_their_own(tmp_path: Path) -> None:
    for name, k in (("a", 0), ("b", 1), ("c", 2)):
        (tmp_path / f"{name}.tsv").write_text(f"{WORDS[k][0]}\t{WORDS[k][1]}\n")
    paths = {f"{part}_path": str(tmp_path / f"{name}.tsv")
             for part, name in (("validation", "b"), ("test", "c"))}  # fmt: skip
    data = load_data(config_of(tmp_path / "a.tsv", **paths))
    assert texts_of(data.train) == [WORDS[0]]
    assert [list(part.ids) for part in (data.train, data.validation, data.test)] == [
        ["1"], ["2"], ["3"],
    ]  # fmt: skip
    assert len(data.digests) == 3


def test_many_pairs_are_gathered_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sequences, whether they are arrays or ranges of one array."""
    path = many(tmp_path)
    whole = split_of(path).train
    monkeypatch.setattr("seqattn.data.text.MAX_IN_MEMORY", 10)
    ranges = split_of(path).train
    assert isinstance(ranges, Windows) and not isinstance(whole, Windows)
    for name in ("source", "target", "source_lengths", "target_lengths"):
        assert np.array_equal(getattr(ranges, name), getattr(whole, name)), name
    assert list(ranges.ids) == list(whole.ids)
    assert ranges.sources.values.dtype == np.uint16 and ranges.source.dtype == np.int64
    chosen = np.array([5, 2, 9])
    assert np.array_equal(ranges.select(chosen).target, whole.select(chosen).target)


# --- commands -------------------------------------------------------------------------------------


def test_a_file_is_learned_and_a_changed_file_is_noticed(
    tmp_path: Path, seqattn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{' '.join(str(k))}\t{' '.join(str(k)[::-1])}" for k in range(100, 700)]
    Path("digits.tsv").write_text("\n".join(lines) + "\n")
    config = {
        "name": "digits", "data": {"kind": "text", "path": "digits.tsv"},
        "model": {"hidden_dim": 24, "attention": {"score": "additive"}},
        "training": {"epochs": 6, "batch_size": 16, "batch_order": "by_length",
                     "teacher_forcing": {"probability": 1}},
    }  # fmt: skip
    Path("digits.yaml").write_text(json.dumps(config))
    losses = []
    for name, limit in (("arrays", 2**22), ("ranges", 10)):
        monkeypatch.setattr("seqattn.data.text.MAX_IN_MEMORY", limit)
        monkeypatch.setattr("seqattn.training.batches.MAX_RESIDENT", limit)
        done = seqattn("train", "digits.yaml", "--name", name, "--quiet")
        assert done.code == 0, done.err
        summary = json.loads(Path(f"outputs/{name}/summary.json").read_text())
        losses.append(summary["test_loss"])
        assert summary["measures"]["exact_match"] > 0.8
        assert summary["data"][0] == "480 training pairs; 60 validation pairs; 60 test pairs"
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    Path("line.txt").write_text("1 2 3\n")
    assert seqattn("predict", "outputs/arrays", "--input", "line.txt").out == "3 2 1\n"
    Path("digits.tsv").write_text("\n".join(lines[1:]) + "\n")
    done = seqattn("evaluate", "outputs/arrays")
    assert done.code == 3 and "what data.path names has changed" in done.err


def test_a_file_of_pairs_is_recognized_and_described(tmp_path: Path, seqattn: Command) -> None:
    rows = [("the dog", "der hund"), ("the dog", "der hund"), ("the dog", "ein hund"),
            ("yes", "yes"), ("a b c d e f g h i j", "k")]  # fmt: skip
    Path("pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows) + "\tleer\n")
    done = seqattn("data", "check", "pairs.tsv")
    assert done.code == 0, done.err
    lines = [line.strip() for line in done.out.splitlines()]
    assert lines[0] == "pairs.tsv: 6 pairs of texts"
    assert "source: 1 to 10 words, median 2, 95% at most 10" in lines
    # 17 source words, of which "yes" and 10 letters occur once.
    assert (
        "source: 13 different words; unknown: 64.71% with min_count: 2, 100.00% with min_count: 5"
        in lines
    )
    # Each of the 17 words is one subword.
    assert any(line.startswith("source: ") and line.endswith("subwords with unit: bpe, 1.00 per word")
               for line in lines)  # fmt: skip
    assert "duplicates: 1 pairs; 1 further targets of a known source" in lines
    assert "suspicious: 1 with equal sides, 1 with more than 9 times as many words on one side" in (
        lines
    )
    assert "left out: 1 with an empty side, 0 with a control character" in lines
    section = yaml.safe_load(done.out[done.out.index("data:") :])
    assert Text.model_validate(section["data"]).path == "pairs.tsv"


@pytest.mark.parametrize(("name", "content", "is_pairs"), [
    ("a.csv", "en,de\nyes,ja\nno,nein\n", True),
    ("a.csv", "station,value\nnorth,1\nsouth,2\n", False),
    ("a.csv", "station,region,value\na,b,1\na,b,2\n", False),
    ("a.csv", "id,source,target\n1,yes,ja\n2,no,nein\n", True),
    ("a.tsv", "2021-01-01\tyes\n2021-01-02\tno\n", False),
    ("a.jsonl", '{"en": "yes", "de": "ja"}\n{"en": "no", "de": "nein"}\n', True),
    ("a.jsonl", '{"source": [[1, 2]], "target": [[1]]}\n', False),
    ("a.npz", "yes\tja\nno\tnein\n", False),
])  # fmt: skip
def test_what_counts_as_a_file_of_pairs(
    tmp_path: Path, name: str, content: str, is_pairs: bool
) -> None:
    (tmp_path / name).write_text(content)
    assert has_pairs_of_texts(str(tmp_path / name)) == is_pairs


def test_no_table_of_measurements_is_taken_for_pairs() -> None:
    found = [path.name for path in (ROOT / "tests/fixtures/real").iterdir()
             if path.is_file() and has_pairs_of_texts(str(path))]  # fmt: skip
    assert found == []


# --- subwords -------------------------------------------------------------------------------------


PAPER = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
"""The words of Sennrich et al. 2016, algorithm 1."""
LETTERS = ["e", "w", "▁", "s", "t", "l", "o", "n", "d", "i", "r"]  # 17, 16, 16, 9, 9, 7, 7, ...


def marked(words: dict[str, int]) -> dict[str, int]:
    return {mark_word(word): count for word, count in words.items()}


def test_subwords_are_learned_as_in_the_paper_and_joined_to_words() -> None:
    """es and est occur 9 times, lo and low 7 times, and the begin of low 7 times."""
    learned = learn_subwords(marked(PAPER), 16)
    assert learned == [*LETTERS, "es", "est", "lo", "low", "▁low"]
    space = Tokens((*SPECIAL, *learned), "bpe")
    assert space.split("lowest  rest") == ["▁low", "est", "▁", "r", "est"]
    numbers = space.numbers(space.split("lowest  rest"), ends=True)
    assert space.text(numbers) == "lowest rest" and UNKNOWN not in numbers
    found = space.symbols_of(space.numbers(space.split("zlow"), ends=False))
    assert found == ["▁", "<unknown>", "low"]
    assert space.split("a▁b") == ["▁", "a", "\ufffd", "b"]  # no word begins inside a word
    assert Tokens.from_plain(space.as_plain()).split("lowest") == space.split("lowest")


def test_a_begin_without_a_word_leaves_no_space() -> None:
    assert join_subwords(["▁ta", "cen", "▁", "▁eer", "ten", "▁"]) == "tacen eerten"


def test_sizes_and_counts_limit_the_subwords() -> None:
    assert learn_subwords(marked(PAPER), 3) == ["e", "w", "▁"]
    assert learn_subwords({}, 3) == []
    assert learn_subwords({"▁": 3}, 3) == ["▁"]
    # Characters that occur less than 4 times are in no subword, not even within a frequent word.
    found = learn_subwords(marked(PAPER | {"lox": 3}), 30, min_count=4)
    assert sorted(found[:8]) == sorted("▁ewstlon") and not any("x" in one for one in found)
    assert "▁newest" in found and "▁low" in found
    assert learn_subwords({"▁a▅b": 9}, 9)[:4] == ["a", "b", "▁", "▅"]
    assert learn_subwords(marked(PAPER), 30) == learn_subwords(marked(PAPER), 30)


def test_words_are_split_as_sentencepiece_splits_them() -> None:
    """Hundreds of English words and their sounds, most of them not among the words that were
    learned from, and words that are joined in an unusual order."""
    text = (ROOT / "docs" / "text.md").read_text() + (ROOT / "README.md").read_text()
    counts = Counter(map(mark_word, text.split()))
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in counts.items()),
        input_format="tsv", model_writer=model, model_type="bpe", vocab_size=600,
        character_coverage=1.0, normalization_rule_name="identity", add_dummy_prefix=False,
        remove_extra_whitespaces=False, minloglevel=2,
    )  # fmt: skip
    other = SentencePieceProcessor(model_proto=model.getvalue())
    pieces = [other.id_to_piece(k) for k in range(3, len(other))]
    letters = [piece for piece in pieces if len(piece) == 1]
    joined = [piece for piece in pieces if len(piece) > 1]
    ours = learn_subwords(counts, 597)
    assert sorted(ours) == sorted(pieces) and ours[len(letters) :] == joined
    space = Tokens((*SPECIAL, *ours), "bpe")
    changelog = [*(ROOT / "CHANGELOG.md").read_text().split(), "aaaa" * 9, "ababab", "eseseses"]
    words = {word for word in changelog if set(word) <= set(letters)}
    assert len(words) > 500
    for word in words:
        assert space.split(word) == other.encode(mark_word(word), out_type=str), word


def test_pairs_have_the_same_parts_with_subwords(tmp_path: Path) -> None:
    path = many(tmp_path)
    sides = {"source": {"unit": "bpe", "max_size": 40}, "target": {"unit": "bpe", "max_size": 40}}
    split = {"validation": 40, "test": 40}
    data, words = split_of(path, split=split, **sides), split_of(path, split=split)
    assert len(data.train.source_space.symbols) == 44
    for name in ("train", "validation", "test"):
        assert list(getattr(data, name).ids) == list(getattr(words, name).ids)
        assert texts_of(getattr(data, name)) == texts_of(getattr(words, name)) or name != "train"
    assert any("40 subwords; unknown: 0.00% in training" in note for note in data.notes)
    longest = int(data.train.source_lengths.max())
    short = split_of(path, split=split, max_length=longest - 1, **sides)
    parts = short.train, short.validation, short.test
    assert max(int(part.source_lengths.max()) for part in parts) < longest
    left_out = sum(map(len, (data.train, data.validation, data.test))) - sum(map(len, parts))
    assert left_out and any(
        note.startswith(f"{left_out} pairs left out with more than {longest - 1} symbols")
        for note in short.notes
    )
    with pytest.raises(DataError, match="the training part has no pairs"):
        split_of(path, split=split, max_length=2, **sides)


def test_words_like_reserved_symbols_have_subwords(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("a\tx<end> <end>\n" * 30)
    data = whole_of(path, target={"unit": "bpe", "max_size": 99})
    assert texts_of(data)[0][1] == "x<end> <end>" and UNKNOWN not in data.target


def test_links_of_subwords_are_refused(tmp_path: Path) -> None:
    for name in ("en", "de", "align"):
        (tmp_path / f"train.{name}").write_text("0-0\n" * 9)
    sides = {"target": {"unit": "bpe"}}
    with pytest.raises(
        DataError, match="has links between words or characters, but with unit: bpe"
    ):
        split_of(tmp_path / "train.{en,de,align}", **sides)
    with pytest.raises(ValidationError, match="links between words or characters"):
        config_of("pairs.tsv", alignment="links", **sides)


def test_sentencepiece_is_named_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UsageError, match=re.escape(install_command("text"))):
        split_of(many(tmp_path), source={"unit": "bpe"})
    space = Tokens((*SPECIAL, *"▁ab", "ab"), "bpe")
    assert space.split("abb") == ["▁", "ab", "b"]  # only learning needs it
