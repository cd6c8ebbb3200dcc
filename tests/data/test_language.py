"""The generated tasks of language: answers derived by hand, links, and parts that share nothing."""

from __future__ import annotations

import datetime
import itertools
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from pydantic import ValidationError

from seqattn.config import Copy, Dates, Grammar, Lag, Numbers, Recall, Reverse, Sort
from seqattn.data.language import (
    NUMBER_TARGETS,
    Draw,
    RandomSymbols,
    draw_date,
    draw_number,
    draw_sentence,
    generate_language,
    part_of,
    spell,
)
from seqattn.data.tasks import generate
from seqattn.data.tokens import BEGIN, END, PAD, SPECIAL, UNKNOWN, Links, Tokens
from seqattn.errors import DataError
from seqattn.rng import rng_for

PARTS = {"validation_seed": 2, "test_seed": 3}
TASKS: dict[str, Dates | Numbers | Grammar] = {
    "dates": Dates(**PARTS),
    "german": Numbers(**PARTS),
    "english": Numbers(language="english", digits=4, **PARTS),
    "grammar": Grammar(**PARTS),
}  # fmt: skip
DRAWS: dict[str, Draw] = {
    "dates": draw_date,
    "german": lambda rng: draw_number(rng, Numbers()),
    "english": lambda rng: draw_number(rng, Numbers(language="english")),
    "grammar": draw_sentence,
}


@pytest.mark.parametrize(("number", "words"), [
    (0, "null"), (1, "eins"), (7, "sieben"), (10, "zehn"), (11, "elf"), (12, "zwölf"),
    (16, "sech zehn"), (17, "sieb zehn"), (21, "ein und zwanzig"), (30, "drei ßig"),
    (47, "sieben und vier zig"), (66, "sechs und sech zig"), (101, "ein hundert eins"),
    (1000, "ein tausend"), (1001, "ein tausend eins"), (21_000, "ein und zwanzig tausend"),
    (516_912, "fünf hundert sech zehn tausend neun hundert zwölf"),
])  # fmt: skip
def test_german_numbers(number: int, words: str) -> None:
    assert " ".join(word.symbol for word in spell(number, "german")) == words


@pytest.mark.parametrize(("number", "words"), [
    (0, "zero"), (13, "thirteen"), (47, "forty seven"), (100, "one hundred"),
    (219_015, "two hundred nineteen thousand fifteen"),
])  # fmt: skip
def test_english_numbers(number: int, words: str) -> None:
    assert " ".join(word.symbol for word in spell(number, "english")) == words


def test_the_spelling_of_a_number_has_no_second_reading() -> None:
    """A thousand consecutive numbers have a thousand spellings, in either language."""
    for language in NUMBER_TARGETS:
        every = {
            " ".join(word.symbol for word in spell(k, language)) for k in range(20_500, 21_500)
        }
        assert len(every) == 1000


def test_the_units_of_german_link_before_the_tens() -> None:
    words = spell(5047, "german")  # fünf tausend sieben und vier zig
    assert [word.sure for word in words] == [(3,), (), (0,), (), (1,), ()]
    assert [word.possible for word in words] == [(), (3,), (), (0, 1), (), (1,)]


def test_symbols_of_a_task_follow_its_rule_and_its_links() -> None:
    """The rules are written again, from the symbols of the source alone."""
    tasks: list[RandomSymbols] = [Copy(length=6, symbols=9), Reverse(length=6, min_length=3, symbols=9),
             Sort(length=6, symbols=9), Lag(length=6, lag=4, steps=3, symbols=9),
             Recall(pairs=5, min_pairs=2, symbols=9)]  # fmt: skip
    rules: list[Callable[[list[str]], list[str]]] = [
        lambda one: one, lambda one: one[::-1], sorted, lambda one: one[-4:-1],
        lambda one: [one[one.index(one[-1]) + 1]],
    ]  # fmt: skip
    for task, rule in zip(tasks, rules, strict=True):
        parts = [generate(task, 60, seed) for seed in (13, 17, 19)]
        texts = [{part.source_space.text(one) for one in part.source} for part in parts]
        assert not any(a & b for a, b in itertools.combinations(texts, 2))
        assert all(len(each) == 60 for each in texts[1:])
        part = parts[0]
        assert isinstance(part.source_space, Tokens)
        assert part.links is not None
        for k, (of_target, of_source, sure) in enumerate(part.links):
            source = part.source_space.symbols_of(part.source[k, : part.source_lengths[k]])
            target = part.target_space.text(part.target[k]).split()
            assert target == rule(source)
            assert set(of_target) == set(range(len(target)))
            for t, s, is_sure in zip(of_target, of_source, sure, strict=True):
                assert target[t] == source[s]
                if isinstance(task, Sort):
                    assert is_sure == (source.count(target[t]) == 1)


@pytest.mark.parametrize(("build", "words"), [
    (lambda: Copy(symbols=5, noise=0.1), "is 0.1, but symbols have no noise"),
    (lambda: Sort(symbols=2, length=8), "only 256 different sources"),
    (lambda: Recall(symbols=3, pairs=4), "only 3 different keys"),
])  # fmt: skip
def test_symbols_that_contradict_other_keys(build: Callable[[], object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        build()


@pytest.mark.parametrize("name", TASKS)
def test_examples_have_known_symbols_and_links_within_their_lengths(name: str) -> None:
    part = generate_language(TASKS[name], 3, 1)
    source, target = part.source_space, part.target_space
    assert isinstance(source, Tokens) and isinstance(target, Tokens)
    for k in range(400):
        example = DRAWS[name](rng_for(3, "data", k))
        assert not set(example.source) - set(source.symbols)
        assert not set(example.target) - set(target.symbols)
        assert len(example.kinds) == len(example.target)
        for t, s, _ in example.links:
            assert 0 <= t < len(example.target)
            assert 0 <= s < len(example.source)


def test_a_date_says_the_date_of_its_source() -> None:
    """Read back by `strptime`, an independent reader."""
    forms = ("%d %B %Y", "%B %d, %Y", "%d %b %y", "%A, %B %d, %Y", "%d.%m.%Y", "%m/%d/%y")
    seen = set[str]()
    for k in range(600):
        example = draw_date(rng_for(5, "data", k))
        text, answer = "".join(example.source), "".join(example.target)
        for form in forms:
            try:
                found = datetime.datetime.strptime(text, form)
            except ValueError:
                continue
            if form.endswith("%y"):  # its century ends in 1969, ours in 1950
                century = 2000 if found.year % 100 < 50 else 1900
                found = found.replace(year=century + found.year % 100)
            if form.startswith("%A"):
                assert text.startswith(found.strftime("%A").lower())
            assert found.date().isoformat() == answer
            seen.add(form)
            break
        else:
            raise AssertionError(text)
        for t, s, sure in example.links:
            if sure:
                assert example.source[s] == example.target[t]
    assert seen == set(forms)


def test_a_sentence_is_translated_word_by_word() -> None:
    """The translation of one sentence, by hand, with its links."""
    rngs = (rng_for(1, "data", k) for k in range(4000))
    found = {" ".join(e.source): e for e in map(draw_sentence, rngs)}
    text, example = next((t, e) for t, e in found.items() if len(e.source) == 12 and
                         e.source[-1] == "today" and "saw" in e.source)  # fmt: skip
    words = text.split()
    assert example.target[0] == "hodi"
    assert example.target[-2:] == ("vid", "ta")
    verb = words.index("saw")
    links = {(t, s): sure for t, s, sure in example.links}
    T = len(example.target)
    assert links[T - 2, verb] is True
    assert links[T - 1, verb] is False
    assert links[0, len(words) - 1] is True
    articles = [k for k, word in enumerate(words) if word in ("the", "a")]
    assert not [s for _, s in links if s in articles]


@pytest.mark.parametrize("name", TASKS)
def test_the_parts_share_no_source(name: str) -> None:
    parts = [generate_language(TASKS[name], 300, seed) for seed in (1, 2, 3)]
    source = parts[0].source_space
    assert isinstance(source, Tokens)
    texts = [{source.text(row) for row in part.source} for part in parts]
    assert not texts[0] & texts[1]
    assert not (texts[0] | texts[1]) & texts[2]
    assert len(texts[1]) == len(texts[2]) == 300  # none is there twice
    assert part_of("7") == part_of("7")
    for part in parts:
        keep = np.arange(part.target_steps) < part.target_lengths[:, None]
        last = part.target[np.arange(300), part.target_lengths - 1, 0]
        assert (last == END).all()
        assert ((part.target[..., 0] == PAD) == ~keep).all()
        assert part.links is not None
        assert part.links.kind_names[-1] == "end" or "end" in part.links.kind_names


def test_equal_seeds_give_equal_sequences_and_more_only_add() -> None:
    few, more = (generate_language(TASKS["grammar"], n, 7) for n in (20, 50))
    assert (few.source == more.source[:20, : few.source.shape[1]]).all()


# --- the vocabulary ------------------------------------------------------------------------------


def test_a_vocabulary_counts_and_reserves() -> None:
    texts = ["b a b", "c  b a", "Zoë zoë"]
    counts = Counter(" ".join(texts).lower().split()) | Counter({"<end>": 5})
    found = Tokens.of_counts(counts, "word", lowercase=True, min_count=2)
    assert Tokens.of_counts(counts, "word", max_size=1).symbols == (*SPECIAL, "b")
    assert found.symbols == (*SPECIAL, "b", "a", "zoë")
    numbers, lengths = found.pad([found.split("a d b"), found.split("B")], ends=True)
    assert numbers[:, :, 0].tolist() == [[5, UNKNOWN, 4, END], [4, END, PAD, PAD]]
    assert lengths.tolist() == [4, 2]
    assert found.text(numbers[0]) == "a <unknown> b"
    assert Tokens.from_plain(found.as_plain()).symbols == found.symbols
    assert BEGIN not in numbers


def test_composed_and_decomposed_letters_are_one_symbol() -> None:
    found = Tokens.of_symbols("t\u00e9", "character")
    assert found.split("e\u0301te\u0301") == ["\u00e9", "t", "\u00e9"]


def test_a_symbol_occurs_once() -> None:
    with pytest.raises(DataError, match="'b' occurs twice"):
        Tokens.of_symbols("abcb")
    with pytest.raises(DataError, match="'<end>' occurs twice"):
        Tokens.of_symbols(["<end>"])


def test_links_of_some_sequences() -> None:
    links = Links.of(
        [[(0, 2, True), (1, 0, False)], [], [(0, 1, True), (0, 3, True), (1, 1, True)]]
    )
    assert links.alignment(3).tolist() == [[2, -1, -1], [-1, -1, -1], [-1, 1, -1]]
    chosen = links.select(np.array([2, 0]))
    assert chosen.alignment(2).tolist() == [[-1, 1], [2, -1]]
    assert [len(t) for t, _, _ in chosen] == [3, 2]
    assert links.select(slice(1, 2)).starts.tolist() == [0, 0]
