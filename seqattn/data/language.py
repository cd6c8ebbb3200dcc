"""Generated tasks of symbols whose links are known: dates, numbers, sentences, and random symbols.

- `dates` writes a date of one of six human formats in the form of ISO 8601, character by character.
  The same date has many spellings, and a name of a month becomes two digits.
- `numbers` writes the digits of a number in German or English words. German says the units before
  the tens (47 is sieben-und-vier-zig), and a word is split into its morphemes. English is monotone.
- `grammar` translates sentences of English words to an artificial language: the verb comes last,
  an adjective follows its noun, some words become two, articles are dropped, and particles mark
  subject and object.

With `symbols: N`, the tasks `copy`, `reverse`, `sort`, `recall` and `lag` have random symbols
instead of random points.

Each example is drawn from its own random numbers. Whether an example belongs to the training,
validation or test part depends on a hash of its meaning (the date, the number or the sentence), so
that no part contains an example of another part. No example is twice in the validation or the test
part, as far as there are enough.
"""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, assert_never

import numpy as np

from seqattn.config import Copy, Dates, Grammar, Lag, Numbers, Recall, Reverse, Sort
from seqattn.data.sequences import Integers, Sequences
from seqattn.data.tokens import Links, Tokens
from seqattn.rng import rng_for

Part = Literal["train", "validation", "test"]
MAX_REPEATS = 100
"""How often an example that the validation or the test part has already is drawn again. Then it is
kept, because the part may have no others."""
RandomSymbols = Copy | Reverse | Sort | Lag | Recall
"""The tasks that have random symbols if `symbols` is set."""
SHARES = 10
"""One of `SHARES` hashes belongs to the validation part, one to the test part, and the other hashes
belong to the training part."""


class Example(NamedTuple):
    """A source and a target with the links between them.

    Attributes:
        source: symbols of the source.
        target: symbols of the target.
        links: triples (target step, source step, whether the link is sure).
        kinds: kind of each target step.
        meaning: what source and target say. It decides to which part the example belongs.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    links: tuple[tuple[int, int, bool], ...]
    kinds: tuple[str, ...]
    meaning: str


Draw = Callable[[np.random.RandomState], Example]


def part_of(meaning: str) -> Part:
    """Return the part to which examples with a meaning belong."""
    share = zlib.crc32(meaning.encode()) % SHARES
    return "test" if share == 0 else "validation" if share == 1 else "train"


def generate_language(
    task: Dates | Numbers | Grammar | RandomSymbols, n: int, seed: int
) -> Sequences:
    """Generate n sequences of a task. They belong to the validation or the test part if `seed` is
    the seed of this part in the task, and to the training part otherwise."""
    part: Part = {task.validation_seed: "validation", task.test_seed: "test"}.get(seed, "train")  # type: ignore[assignment]
    draw: Draw
    match task:
        case Dates():
            draw, source, target = draw_date, DATE_SOURCE, DATE_TARGET
        case Numbers():
            target = NUMBER_TARGETS[task.language]
            draw, source = partial(draw_number, task=task), NUMBER_SOURCE
        case Grammar():
            draw, source, target = draw_sentence, GRAMMAR_SOURCE, GRAMMAR_TARGET
        case _:
            symbols = task.symbols or 0
            draw = partial(draw_symbols, task=task, symbols=symbols)
            source, target = symbol_spaces(task, symbols)
    found, drawn = list[Example](), set[tuple[str, ...]]()
    for k in range(n):
        rng = rng_for(seed, "data", k)
        example, repeats = draw(rng), 0
        while part_of(example.meaning) != part or (
            part != "train" and example.source in drawn and repeats < MAX_REPEATS
        ):
            repeats += example.source in drawn
            example = draw(rng)
        drawn.add(example.source)
        found.append(example)
    links = Links.of([one.links for one in found], [(*one.kinds, "end") for one in found])
    sources, source_lengths = source.pad([one.source for one in found], ends=False)
    targets, target_lengths = target.pad([one.target for one in found], ends=True)
    return Sequences(
        sources, source_lengths, targets, target_lengths, source.names,
        tuple(map(str, range(n))), target_features=target.names, links=links,
        alignment=links.alignment(targets.shape[1]), source_space=source, target_space=target,
    )  # fmt: skip


# --- dates ----------------------------------------------------------------------------------------

MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september",
          "october", "november", "december")  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FIRST_DATE, LAST_DATE = datetime.date(1950, 1, 1), datetime.date(2049, 12, 31)
DATE_FORMATS = (
    "{day} {month} {year}",  # 9 march 2014
    "{month} {day}, {year}",  # march 9, 2014
    "{day} {mon} {yy}",  # 9 mar 14
    "{weekday}, {month} {day}, {year}",  # sunday, march 9, 2014
    "{dd}.{mm}.{year}",  # 09.03.2014
    "{mm}/{dd}/{yy}",  # 03/09/14
)
DATE_SOURCE = Tokens.of_symbols(" ,./0123456789abcdefghijlmnoprstuvwy", "character")
DATE_TARGET = Tokens.of_symbols("-0123456789", "character")


def draw_date(rng: np.random.RandomState) -> Example:
    """Draw a date from 1950 to 2049 in a random format.

    A digit has a sure link to the digit that it copies. The digits that a name of a month or the
    two digits of a year determine have possible links to all letters or digits of this name or
    year.
    """
    days = (LAST_DATE - FIRST_DATE).days + 1
    date = FIRST_DATE + datetime.timedelta(int(rng.random_sample() * days))
    form = DATE_FORMATS[int(rng.random_sample() * len(DATE_FORMATS))]
    fields = {
        "day": str(date.day), "dd": f"{date.day:02}", "mm": f"{date.month:02}",
        "month": MONTHS[date.month - 1], "mon": MONTHS[date.month - 1][:3],
        "year": str(date.year), "yy": f"{date.year % 100:02}",
        "weekday": WEEKDAYS[date.weekday()],
    }  # fmt: skip
    source, places = "", dict[str, range]()
    for k, piece in enumerate(form.replace("}", "{").split("{")):
        text = fields[piece] if k % 2 else piece
        if k % 2:
            places[piece] = range(len(source), len(source) + len(text))
        source += text
    # Each field of the target ends with the last digits of its field in the source.
    links = list[tuple[int, int, bool]]()
    for first, width, names in ((0, 4, ("year", "yy")), (5, 2, ("mm", "month", "mon")),
                                (8, 2, ("day", "dd"))):  # fmt: skip
        name = next(each for each in names if each in places)
        at = places[name]
        if name in ("month", "mon"):
            links += [(first + t, s, False) for t in range(width) for s in at]
            continue
        missing = width - len(at)
        links += [(first + t, s, False) for t in range(missing) for s in at]
        links += [(first + missing + k, s, True) for k, s in enumerate(at)]
    kinds = ("century",) * 2 + ("year",) * 2 + ("dash",) + ("month",) * 2 + ("dash",)
    return Example(
        tuple(source), tuple(date.isoformat()), tuple(links), (*kinds, "day", "day"),
        date.isoformat(),
    )  # fmt: skip


# --- numbers --------------------------------------------------------------------------------------

Language = Literal["german", "english"]
GERMAN_UNITS = ("", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun")
GERMAN_STEMS = {6: "sech", 7: "sieb"}
"""Stems of units before "zehn" and "zig" where they differ from the word."""
ENGLISH_UNITS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
ENGLISH_TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
                 "seventeen", "eighteen", "nineteen")  # fmt: skip
ENGLISH_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty",
                "ninety")  # fmt: skip
NUMBER_SOURCE = Tokens.of_symbols("0123456789", "character")
NUMBER_TARGETS: dict[Language, Tokens] = {
    "german": Tokens.of_symbols((
        *GERMAN_UNITS[1:], "eins", "null", *GERMAN_STEMS.values(), "elf", "zwölf", "zehn",
        "zwanzig", "zig", "ßig", "und", "hundert", "tausend",
    )),
    "english": Tokens.of_symbols((
        *ENGLISH_UNITS[1:], "zero", *ENGLISH_TEENS, *ENGLISH_TENS[2:], "hundred", "thousand",
    )),
}  # fmt: skip


class _Word(NamedTuple):
    """A symbol of a number, with the digit that it says and other digits on which it depends. A
    digit is named by its place: 0 for units, 1 for tens and so on."""

    symbol: str
    kind: str
    sure: tuple[int, ...]
    possible: tuple[int, ...] = ()


def draw_number(rng: np.random.RandomState, task: Numbers) -> Example:
    """Draw a number with at most `task.digits` digits, each number of digits with the same
    probability.

    A symbol has a sure link to the digit that it says. "hundert", "tausend" and "und" have possible
    links to the digits on which they depend.
    """
    length = 1 + int(rng.random_sample() * task.digits)
    low = 10 ** (length - 1) if length > 1 else 0
    number = low + int(rng.random_sample() * (10**length - low))
    source = str(number)
    words = spell(number, task.language)
    last = len(source) - 1
    links = tuple(
        (t, last - place, is_sure)
        for t, word in enumerate(words)
        for places, is_sure in ((word.sure, True), (word.possible, False))
        for place in places
    )
    return Example(
        tuple(source), tuple(word.symbol for word in words), links,
        tuple(word.kind for word in words), source,
    )  # fmt: skip


def spell(number: int, language: Language) -> list[_Word]:
    """Return the symbols of a number from 0 to 999,999."""
    below, zero = (_german_below_1000, "null") if language == "german" else (
        _english_below_1000, "zero")  # fmt: skip
    if number == 0:
        return [_Word(zero, "units", (0,))]
    thousands, rest = divmod(number, 1000)
    words = list[_Word]()
    if thousands:
        words += below(thousands, 3, False)
        places = tuple(3 + k for k, digit in enumerate(reversed(str(thousands))) if digit != "0")
        words.append(_Word("tausend" if language == "german" else "thousand", "thousand", (),
                           places))  # fmt: skip
    return words + below(rest, 0, True)


def _german_below_1000(number: int, place: int, is_last: bool) -> list[_Word]:
    hundreds, rest = divmod(number, 100)
    tens, units = divmod(rest, 10)
    words = list[_Word]()
    if hundreds:
        words.append(_Word(GERMAN_UNITS[hundreds], "hundreds", (place + 2,)))
        words.append(_Word("hundert", "hundred", (), (place + 2,)))
    stem = GERMAN_STEMS.get(units, GERMAN_UNITS[units])
    if rest in (11, 12):
        words.append(_Word(("elf", "zwölf")[rest - 11], "units", (place,), (place + 1,)))
    elif tens == 1:
        if units:
            words.append(_Word(stem, "units", (place,)))
        words.append(_Word("zehn", "tens", (place + 1,)))
    elif rest:
        if units:
            is_one = rest == 1 and is_last
            words.append(_Word("eins" if is_one else GERMAN_UNITS[units], "units", (place,)))
        if tens and units:
            words.append(_Word("und", "and", (), (place, place + 1)))
        if tens == 2:
            words.append(_Word("zwanzig", "tens", (place + 1,)))
        elif tens:
            word = GERMAN_STEMS.get(tens, GERMAN_UNITS[tens])
            words.append(_Word(word, "tens", (place + 1,)))
            words.append(_Word("ßig" if tens == 3 else "zig", "suffix", (), (place + 1,)))
    return words


def _english_below_1000(number: int, place: int, is_last: bool) -> list[_Word]:
    hundreds, rest = divmod(number, 100)
    tens, units = divmod(rest, 10)
    words = list[_Word]()
    if hundreds:
        words.append(_Word(ENGLISH_UNITS[hundreds], "hundreds", (place + 2,)))
        words.append(_Word("hundred", "hundred", (), (place + 2,)))
    if tens == 1:
        words.append(_Word(ENGLISH_TEENS[units], "units", (place,), (place + 1,)))
    else:
        if tens:
            words.append(_Word(ENGLISH_TENS[tens], "tens", (place + 1,)))
        if units:
            words.append(_Word(ENGLISH_UNITS[units], "units", (place,)))
    return words


# --- random symbols -------------------------------------------------------------------------------


def symbol_spaces(task: RandomSymbols, symbols: int) -> tuple[Tokens, Tokens]:
    """Return the vocabularies of the sources and of the targets of a task with random symbols: the
    numbers 1, 2, ..., and keys such as k1 in the sources of `recall`."""
    values = [str(k) for k in range(1, symbols + 1)]
    keys = [f"k{value}" for value in values] if isinstance(task, Recall) else []
    return Tokens.of_symbols([*keys, *values]), Tokens.of_symbols(values)


def draw_symbols(rng: np.random.RandomState, task: RandomSymbols, symbols: int) -> Example:
    """Draw random symbols, and the target of the task.

    A target symbol has a sure link to the source step that it copies. In `sort`, a symbol that
    occurs several times has possible links to all its places.
    """
    low, high = (
        (task.min_pairs, task.pairs) if isinstance(task, Recall) else (task.min_length, task.length)
    )  # fmt: skip
    length = high if low is None else low + int(rng.random_sample() * (high - low + 1))
    drawn = 1 + (rng.random_sample(length) * symbols).astype(np.int64)
    source = [str(value) for value in drawn.tolist()]
    if isinstance(task, Recall):
        keys = [f"k{1 + key}" for key in rng.permutation(symbols)[:length].tolist()]
        queried = int(rng.random_sample() * length)
        source = [symbol for pair in zip(keys, source, strict=True) for symbol in pair]
        source.append(keys[queried])
        order = [2 * queried + 1]
    else:
        order = _order_of_path(task, drawn)
    target = [source[s] for s in order]
    links = [(t, s, True) for t, s in enumerate(order)]
    if isinstance(task, Sort):
        links = [
            (t, s, target.count(symbol) == 1)
            for t, symbol in enumerate(target) for s in order if source[s] == symbol
        ]  # fmt: skip
    kinds = ("symbol",) * len(target)
    return Example(tuple(source), tuple(target), tuple(links), kinds, " ".join(source))


def _order_of_path(task: Copy | Reverse | Sort | Lag, drawn: Integers) -> list[int]:
    """Return the source step of each target step."""
    length = len(drawn)
    match task:
        case Copy():
            return list(range(length))
        case Reverse():
            return list(range(length))[::-1]
        case Sort():
            return [int(s) for s in np.argsort(drawn, kind="stable")]
        case Lag():
            return [length + t - task.lag for t in range(task.steps)]
        case _:
            assert_never(task)


# --- grammar --------------------------------------------------------------------------------------

NOUNS = {
    "sailor": "mar ino", "child": "bel", "woman": "sona", "man": "tor", "dog": "kano",
    "cat": "mipa", "bird": "flu", "king": "rego", "teacher": "lern ino", "farmer": "agro ino",
    "lighthouse": "lum domo", "house": "domo", "ship": "nava", "river": "akva", "apple": "poma",
    "book": "libra", "letter": "skrib", "stone": "petro", "tree": "arbo", "lamp": "lumo",
}  # fmt: skip
ADJECTIVES = {
    "old": "vek", "young": "nov", "red": "rug", "green": "verd", "small": "pet", "big": "gran",
    "happy": "feli", "tired": "lak", "quiet": "silen", "strange": "strum",
}  # fmt: skip
VERBS = {
    "see": "vid", "find": "trov", "carry": "port", "watch": "gard", "paint": "pent", "like": "am",
    "draw": "desen", "lose": "perd", "clean": "pur", "follow": "sek",
}  # fmt: skip
PAST = {"see": "saw", "find": "found", "carry": "carried", "watch": "watched", "paint": "painted",
        "like": "liked", "draw": "drew", "lose": "lost", "clean": "cleaned",
        "follow": "followed"}  # fmt: skip
PRESENT = {verb: verb + "s" for verb in VERBS} | {"carry": "carries", "watch": "watches"}
PREPOSITIONS = {"with": "kun", "near": "apud", "behind": "post", "without": "sen"}
ADVERBS = {"today": "hodi", "often": "oft", "never": "neni", "slowly": "lant"}
SUBJECT_PARTICLE, OBJECT_PARTICLE, PAST_PARTICLE = "wa", "o", "ta"
GRAMMAR_SOURCE = Tokens.of_symbols(
    ("the", "a", *NOUNS, *ADJECTIVES, *PRESENT.values(), *PAST.values(), *PREPOSITIONS, *ADVERBS),
    "word",
)
GRAMMAR_TARGET = Tokens.of_symbols(
    dict.fromkeys((
        SUBJECT_PARTICLE, OBJECT_PARTICLE, PAST_PARTICLE,
        *(word for words in (NOUNS, ADJECTIVES, VERBS, PREPOSITIONS, ADVERBS)
          for text in words.values() for word in text.split()),
    )), "word",
)  # fmt: skip


class _Phrase(NamedTuple):
    """A phrase of the target under construction: triples (word, kind, source steps with whether
    their links are sure)."""

    words: list[tuple[str, str, list[tuple[int, bool]]]]

    def add(self, text: str, kind: str, step: int, *, sure: bool = True) -> None:
        self.words.extend((word, kind, [(step, sure)]) for word in text.split())


def draw_sentence(rng: np.random.RandomState) -> Example:
    """Draw a sentence: subject, verb, object, and with probability 1/2 each a prepositional phrase
    after the object and an adverb at the end.

    The target has the order adverb, subject, "wa", prepositional phrase, object, "o", verb, and
    "ta" after a verb in the past. Words that translate each other have sure links. The particles
    have possible links: "wa" and "o" to the noun before them, "ta" to the verb. Articles have no
    link.
    """

    def choose(words: dict[str, str]) -> str:
        return list(words)[int(rng.random_sample() * len(words))]

    source = list[str]()

    def noun_phrase(particle: str) -> _Phrase:
        found = _Phrase([])
        source.append(("the", "a")[int(rng.random_sample() * 2)])
        adjectives = [choose(ADJECTIVES) for _ in range(int(rng.random_sample() * 3))]
        steps = list[int]()
        for adjective in dict.fromkeys(adjectives):
            steps.append(len(source))
            source.append(adjective)
        noun = choose(NOUNS)
        found.add(NOUNS[noun], "noun", len(source))
        for step in reversed(steps):
            found.add(ADJECTIVES[source[step]], "adjective", step)
        if particle:
            found.add(particle, "particle", len(source), sure=False)
        source.append(noun)
        return found

    subject = noun_phrase(SUBJECT_PARTICLE)
    verb, is_past = choose(VERBS), rng.random_sample() < 0.5
    predicate = _Phrase([])
    predicate.add(VERBS[verb], "verb", len(source))
    if is_past:
        predicate.add(PAST_PARTICLE, "particle", len(source), sure=False)
    source.append((PAST if is_past else PRESENT)[verb])
    thing = noun_phrase(OBJECT_PARTICLE)
    place, time = _Phrase([]), _Phrase([])
    if rng.random_sample() < 0.5:
        preposition, step = choose(PREPOSITIONS), len(source)
        source.append(preposition)
        place = noun_phrase("")
        place.add(PREPOSITIONS[preposition], "preposition", step)
    if rng.random_sample() < 0.5:
        adverb = choose(ADVERBS)
        time.add(ADVERBS[adverb], "adverb", len(source))
        source.append(adverb)
    words = [word for phrase in (time, subject, place, thing, predicate) for word in phrase.words]
    links = tuple((t, s, sure) for t, (_, _, of) in enumerate(words) for s, sure in of)
    return Example(
        tuple(source), tuple(word for word, _, _ in words), links,
        tuple(kind for _, kind, _ in words), " ".join(source),
    )  # fmt: skip
