"""Every sentence of a comparison is read back, and held against numbers that are computed here.

A sentence that no reader knows fails the test. The numbers come from the losses by definition:
exact fractions, and all patterns of signs.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqattn.analysis.comparison import ComparisonResult, VariantResult, describe_result
from seqattn.analysis.comparison.reading import collect_result
from seqattn.analysis.comparison.tables import describe_references
from seqattn.runs import RunFolder

INF = math.inf
LEVEL = 0.05
NAMES = ("ay", "bee", "cee", "dee")
EXTREMES = (0.0, 5e-324, 1e-323, 1.5e-323, 1e-310, 1e-200, 3e-162, 0.1, 0.2, 0.1 + 0.2, 0.3, 1.0, 1e160,
            9e307, 1.7e308, INF)  # fmt: skip


# --- the numbers, by definition -------------------------------------------------------------------


def as_number(text: str) -> float:
    return {"infinity": INF, "-infinity": -INF, "unknown": math.nan}.get(text) or float(text)


@dataclass(frozen=True)
class Pair:
    """Two variants, and the losses of the seeds that both have; inf for a diverged seed."""

    losses: tuple[tuple[float, float], ...]

    @property
    def wins(self) -> tuple[int, int]:
        return (
            sum(one < other for one, other in self.losses),
            sum(other < one for one, other in self.losses),
        )

    @property
    def ties(self) -> int:
        return len(self.losses) - sum(self.wins)

    @property
    def diverged(self) -> tuple[int, int]:
        return sum(one == INF for one, _ in self.losses), sum(two == INF for _, two in self.losses)

    @cached_property
    def differences(self) -> tuple[list[Fraction], list[int]]:
        """The finite untied differences as the floats that they are rounded to, and the signs of
        the infinite ones."""
        untied = [(one, other) for one, other in self.losses if one != other]
        return (
            [Fraction(one - other) for one, other in untied if INF not in (one, other)],
            [1 if one == INF else -1 for one, other in untied if INF in (one, other)],
        )

    @cached_property
    def p(self) -> float:
        """The p-value from all patterns of signs. A Walsh average of 0 speaks against both sides."""
        finite, infinite = self.differences
        n, m = len(finite), len(infinite)
        if not n + m:
            return 1.0
        midrank = 2 * n + m + 1  # doubled
        sides = []
        for side in (1, -1):
            walsh = itertools.combinations_with_replacement(finite, 2)
            seen = 2 * sum(side * (one + other) > 0 for one, other in walsh)
            sides.append(seen + midrank * sum(side * sign > 0 for sign in infinite))
        counts = {0: 1}  # patterns of signs by their doubled statistic
        for rank in [*range(2, 2 * n + 1, 2), *[midrank] * m]:
            more = dict(counts)
            for total, count in counts.items():
                more[total + rank] = more.get(total + rank, 0) + count
            counts = more
        tail = sum(count for total, count in counts.items() if total >= max(sides))
        return min(1.0, 2 * tail / 2 ** (n + m))

    @property
    def estimate(self) -> float:
        """The median of the Walsh averages; a mean of inf and -inf is half of each."""
        finite, infinite = self.differences
        walsh: list[Fraction | float] = []  # each average twice
        for one, other in itertools.combinations_with_replacement(finite, 2):
            walsh += [(one + other) / 2] * 2
        walsh += [sign * INF for sign in infinite for _ in finite for _ in range(2)]
        for one, other in itertools.combinations_with_replacement(infinite, 2):
            walsh += [one * INF, other * INF]
        walsh.sort()
        if not walsh:
            return 0.0
        low, high = walsh[len(walsh) // 2 - 1], walsh[len(walsh) // 2]
        if isinstance(low, Fraction) and isinstance(high, Fraction):
            return float((low + high) / 2)
        if low == high:
            return float(low)
        return math.nan if (low, high) == (-INF, INF) else INF if high == INF else -INF


def holm(p: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    found, highest = dict[tuple[str, str], float](), 0.0
    for rank, key in enumerate(sorted(p, key=lambda each: p[each])):
        highest = max(highest, min(1.0, (len(p) - rank) * p[key]))
        found[key] = highest
    return found


def least_p(seeds: int) -> float:
    return min(1.0, 2 / 2**seeds)


class Numbers:
    """What is true of a comparison."""

    def __init__(self, result: ComparisonResult, tested: Callable[[str, str], bool]) -> None:
        losses = {variant.name: variant.losses for variant in result.variants}
        pairs = {
            (one, other): Pair(tuple((losses[one][seed], losses[other][seed])
                                     for seed in losses[one] if seed in losses[other]))
            for one, other in itertools.combinations(losses, 2) if tested(one, other)
        }  # fmt: skip
        self.pairs = {key: pair for key, pair in pairs.items() if len(pair.losses) > 1}
        self.holm = holm({key: pair.p for key, pair in self.pairs.items()})
        self.least = holm({key: least_p(sum(pair.wins)) for key, pair in self.pairs.items()})
        self.least_untied = holm(
            {key: least_p(len(pair.losses)) for key, pair in self.pairs.items()}
        )
        self.needed = next(
            n for n in itertools.count(1) if least_p(n) <= LEVEL / max(1, len(self.pairs))
        )
        self.described = set[tuple[str, str]]()
        self.result = result

    def pair(self, match: re.Match[str]) -> tuple[tuple[str, str], Pair]:
        """The pair of a sentence, which may be described once."""
        key = next(key for key in self.pairs if set(key) == {match["a"], match["b"]})
        assert key not in self.described
        self.described.add(key)
        assert "seeds" not in match.groupdict() or int(match["seeds"]) == len(
            self.pairs[key].losses
        )
        return key, self.pairs[key]


def says_p(text: str, p: float) -> None:
    assert float(text) == pytest.approx(p, rel=0.051)
    assert (float(text) < LEVEL) == (p < LEVEL)


# --- the readers ----------------------------------------------------------------------------------

NUMBER = r"-?(?:infinity|unknown|[\d.]+(?:e[-+]\d+)?)"
TWO = r"(?P<a>\w+) and (?P<b>\w+)"
ESTIMATE = (
    r"the typical difference in loss(?P<untied> over the seeds that are not tied)?, (?P<first>\w+)"
    rf" minus (?P<second>\w+) \(Hodges-Lehmann\), is (?P<size>{NUMBER})"
    rf"(?: \(95% interval: (?P<low>{NUMBER}) to (?P<high>{NUMBER})\)"
    r"|, without an interval \(needs (?P<needs>\d+) seeds(?P<noties> without ties)?\))"
)
DIVERGED = r"(?: \((?P<lost>\w+ diverged in \d+(?:, \w+ diverged in \d+)?)\))?"


def check_estimate(match: re.Match[str], numbers: Numbers, pair: Pair, sign: int) -> bool:
    """Check the estimate and the interval, and return whether the interval excludes 0."""
    assert bool(match["untied"]) == bool(pair.ties)
    size, exact = as_number(match["size"]), sign * pair.estimate
    assert size == pytest.approx(exact, rel=0.051, abs=1e-323, nan_ok=True)
    assert math.isnan(size) or (size > 0) == (exact > 0) or abs(exact) < 1e-323
    untied = sum(pair.wins)
    if match["needs"]:
        assert int(match["needs"]) == numbers.needed > untied
        assert bool(match["noties"]) == bool(pair.ties)
        return False
    assert untied >= numbers.needed
    low, high = as_number(match["low"]), as_number(match["high"])
    assert low <= high
    assert math.isnan(size) or low <= size <= high
    excludes = low > 0 or high < 0
    assert excludes == (pair.p <= LEVEL / len(numbers.pairs))
    return excludes


def check_divergence(match: re.Match[str], key: tuple[str, str], pair: Pair) -> None:
    named = dict(re.findall(r"(\w+) diverged in (\d+)", match["lost"] or ""))
    counts = {name: str(n) for name, n in zip(key, pair.diverged, strict=True) if n}
    assert named == counts


def decided(match: re.Match[str], numbers: Numbers) -> None:
    key, pair = numbers.pair(match)
    place = key.index(match["a"])
    assert numbers.holm[key] < LEVEL
    assert (match["first"], match["second"], match["better"]) == (
        match["b"],
        match["a"],
        match["a"],
    )
    excludes = check_estimate(match, numbers, pair, 1 if place else -1)
    assert as_number(match["size"]) >= 0  # the worse variant has the higher loss
    assert int(match["won"]) == pair.wins[place] >= pair.wins[1 - place]
    assert int(match["ties"] or 0) == pair.ties
    check_divergence(match, key, pair)
    assert bool(match["p"]) == (not excludes)
    if match["p"]:
        says_p(match["p"], numbers.holm[key])
    assert bool(match["stricter"]) == bool(match["low"] and not excludes)
    if match["stricter"]:  # the p-value rejects by Holm's level, and not by Bonferroni's
        assert int(match["stricter"]) == len(numbers.pairs) > 1
        assert LEVEL / len(numbers.pairs) < pair.p


def undecided(match: re.Match[str], numbers: Numbers) -> None:
    key, pair = numbers.pair(match)
    assert (match["first"], match["second"]) == key == (match["a"], match["b"])
    check_estimate(match, numbers, pair, 1)
    check_divergence(match, key, pair)
    assert numbers.least[key] < LEVEL  # other differences could have decided
    if match["favored"]:
        assert numbers.holm[key] < LEVEL
        says_p(match["p"], numbers.holm[key])
        place = key.index(match["other"])
        assert match["favored"] == key[1 - place]
        assert int(match["most"]) == pair.wins[place] > pair.wins[1 - place]
        assert int(match["of"]) == len(pair.losses)
        return
    assert numbers.holm[key] >= LEVEL
    assert bool(match["alone"]) == (pair.p < LEVEL)
    if match["alone"]:
        says_p(match["alone"], pair.p)
        says_p(match["together"], numbers.holm[key])
        assert int(match["tests"]) == len(numbers.pairs)


def all_tied(match: re.Match[str], numbers: Numbers) -> None:
    _, pair = numbers.pair(match)
    assert pair.ties == len(pair.losses)
    assert pair.diverged == (int(match["both"] or 0),) * 2
    assert pair.diverged[0] < len(pair.losses)


def all_diverged(match: re.Match[str], numbers: Numbers) -> None:
    _, pair = numbers.pair(match)
    assert pair.diverged == (len(pair.losses),) * 2


def too_few(match: re.Match[str], numbers: Numbers) -> None:
    key, _ = numbers.pair(match)
    assert numbers.least_untied[key] >= LEVEL


def too_few_untied(match: re.Match[str], numbers: Numbers) -> None:
    key, _ = numbers.pair(match)
    says_p(match["p"], numbers.least[key])
    assert numbers.least_untied[key] < LEVEL <= numbers.least[key] <= numbers.holm[key]
    assert any(pair.ties for pair in numbers.pairs.values())


def too_few_for_all(match: re.Match[str], numbers: Numbers) -> None:
    assert {len(pair.losses) for pair in numbers.pairs.values()} == {int(match["seeds"])}
    assert int(match["pairs"]) == len(numbers.pairs)
    assert all(p >= LEVEL for p in numbers.least_untied.values())
    numbers.described.update(numbers.pairs)


def simultaneous(match: re.Match[str], numbers: Numbers) -> None:
    assert int(match["pairs"]) == len(numbers.pairs) > 1
    assert any(sum(pair.wins) >= numbers.needed for pair in numbers.pairs.values())


def lost_seeds(match: re.Match[str], numbers: Numbers) -> None:
    (variant,) = (each for each in numbers.result.variants if each.name == match["name"])
    count = len(variant.diverged if match["how"] == "diverged" else set(variant.folders)
                - set(variant.losses))  # fmt: skip
    assert (int(match["count"]), int(match["of"])) == (count, len(variant.folders))
    assert count > 0


def other_units(match: re.Match[str], numbers: Numbers) -> None:
    assert not numbers.result.same_units


def other_training_units(match: re.Match[str], numbers: Numbers) -> None:
    assert not numbers.result.same_training_units


def other_data(match: re.Match[str], numbers: Numbers) -> None:
    assert not numbers.result.same_data_in_pairs


def scope(match: re.Match[str], numbers: Numbers) -> None:
    seeds = {seed for variant in numbers.result.variants for seed in variant.folders}
    assert match[0].startswith("This is one seed") == (len(seeds) < 2)
    assert (" and data, so" in match[0]) == (numbers.result.data_of_seeds == "new")
    assert ("the data are the same" in match[0]) == (numbers.result.data_of_seeds == "same")


READERS: dict[str, Callable[[re.Match[str], Numbers], None]] = {
    rf"(?P<a>\w+) is better than (?P<b>\w+)(?: \(p = (?P<p>{NUMBER}), Holm\))?: {ESTIMATE};"
    rf" (?P<better>\w+) is better in (?P<won>\d+) of (?P<seeds>\d+) seeds(?:, (?P<ties>\d+) tied)?"
    rf"{DIVERGED}\.(?: The interval contains 0 because Bonferroni's correction of the"
    r" (?P<stricter>\d+) intervals is stricter than Holm's correction of the p-values\.)?": decided,
    rf"(?P<seeds>\d+) seeds cannot tell {TWO} apart: {ESTIMATE}{DIVERGED}"
    r"(?:; the test, which gives large differences more weight, favors (?P<favored>\w+)"
    rf" \(p = (?P<p>{NUMBER}), Holm\), but (?P<other>\w+) is better in (?P<most>\d+) of"
    r" (?P<of>\d+) seeds"
    rf"|; p is (?P<alone>{NUMBER}) for this pair alone, but (?P<together>{NUMBER}) with Holm's"
    r" correction for (?P<tests>\d+) pairs)?\.": undecided,
    rf"{TWO} have the same result in all (?P<seeds>\d+) seeds"
    r"(?:: both diverged in (?P<both>\d+), and their losses are equal in the others)?\.": all_tied,
    rf"{TWO} diverged in all (?P<seeds>\d+) seeds\.": all_diverged,
    rf"(?P<seeds>\d+) seeds are too few to tell {TWO} apart, whatever their losses\.": too_few,
    rf"(?P<seeds>\d+) seeds cannot tell {TWO} apart: with the tied seeds of this comparison, p"
    rf" cannot be below (?P<p>{NUMBER}) \(Holm\)\.": too_few_untied,
    r"(?P<seeds>\d+) seeds are too few for (?P<pairs>\d+) pairs: no test could tell any two variants"
    r" apart, whatever their losses\.": too_few_for_all,
    r"The intervals are simultaneous 95% confidence intervals for (?P<pairs>\d+) pairs"
    r" \(Bonferroni\)\.": simultaneous,
    r"(?P<count>\d+) of (?P<of>\d+) seeds of (?P<name>\w+) (?P<how>diverged); a diverged seed ranks"
    r" below every seed that did not diverge\.": lost_seeds,
    r"(?P<count>\d+) of (?P<of>\d+) seeds of (?P<name>\w+) are (?P<how>unfinished); they are not"
    r" included in the results\.": lost_seeds,
    r"The training and validation losses of the variants .* in different units, because .*":
        other_training_units,
    r"The test losses are in different units, because .* are not tested against each other\..*":
        other_units,
    r"The variants differ in their data, so .* share only their seed\.": other_data,
    r"(The seeds vary|Each seed has its own|This is one seed).*": scope,
}  # fmt: skip


def read_back(sentence: str, numbers: Numbers) -> str:
    """Check a sentence, and return the pattern of its reader."""
    found = [(pattern, match) for pattern in READERS if (match := re.fullmatch(pattern, sentence))]
    assert found, f"no reader knows this sentence: {sentence}"
    ((pattern, match),) = found
    READERS[pattern](match, numbers)
    return pattern


# --- the comparisons ------------------------------------------------------------------------------

Comparison = tuple[ComparisonResult, Numbers]


def compare(
    losses: Mapping[str, Mapping[int, float]],
    seeds: int = 0,
    *,
    scalings: Sequence[str] = ("none",) * len(NAMES),
    kinds: Sequence[str] = ("squares",) * len(NAMES),
    values: Sequence[float | None] = (None,) * len(NAMES),
    resampled: bool = False,
) -> Comparison:
    """Compare variants by their losses. Each variant has folders for the seeds below `seeds`."""
    variants, data = [], {}
    for (name, held), scaling, kind, value in zip(
        losses.items(), scalings, kinds, values, strict=False
    ):
        folders = {
            seed: RunFolder(Path("nowhere") / name / f"seed-{seed}")
            for seed in sorted({*range(seeds), *held})
        }
        summaries = {
            seed: {"test_loss": loss, "scaled": False, "features": ["x"], "noise_floor": 0.01, "baselines": {"rule": 1}}
            for seed, loss in held.items() if loss < INF
        }  # fmt: skip
        diverged = frozenset(held.keys() - summaries.keys())
        variants.append(
            VariantResult(name, folders, summaries, diverged, "g" * (value is not None), value)
        )
        data[name] = {"kind": kind, "scaling": scaling}
    result = collect_result(
        Path("nowhere"), variants, data, "" if values[0] is None else "k", resampled=resampled
    )
    units = dict(zip(losses, zip(scalings, values, strict=False), strict=False))
    return result, Numbers(result, lambda one, other: units[one] == units[other])


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    """A comparison of one to four variants with up to twelve seeds: with any losses, with losses
    that order the variants in most seeds, or with equal variants."""
    count = draw(st.sampled_from((2, 3, 4, 1)))
    seeds = draw(st.sampled_from((8, 7, 6, 9, 10, 12, 1, 2, 5)))
    loss = st.sampled_from(EXTREMES) | st.floats(0, allow_infinity=False) | st.floats(0.01, 10)
    row = st.lists(loss, min_size=count, max_size=count)
    table = draw(st.lists(row, min_size=seeds, max_size=seeds))
    if draw(st.booleans()):  # the first variants are better in most seeds
        table = [sorted(each) if draw(st.integers(0, 7)) else each for each in table]
    if draw(st.integers(0, 3)) == 0:  # some variants are equal
        table = [[each[k // 2] for k in range(count)] for each in table]
    cell = st.tuples(st.integers(0, count - 1), st.integers(0, seeds - 1))
    missing = draw(st.sets(cell, max_size=3))
    losses = {
        name: {seed: table[seed][k] for seed in range(seeds) if (k, seed) not in missing}
        for k, name in enumerate(NAMES[:count])
    }

    def choose(*options: Any) -> list[Any]:
        chosen = st.lists(st.sampled_from(options), min_size=count, max_size=count)
        return draw(st.just([options[0]] * count) | chosen)

    values = choose(1.0, 2.0) if draw(st.integers(0, 3)) == 0 else [None] * count
    return compare(
        losses,
        draw(st.sampled_from((0, seeds))),  # a missing seed has no folder, or one without a result
        scalings=choose("none", "standard"),
        kinds=choose("squares", "copy"),
        values=values,
        resampled=draw(st.booleans()),
    )


def check_sentences(comparison: Comparison) -> list[str]:
    """Read all sentences of a comparison back, and return the patterns of their readers."""
    result, numbers = comparison
    numbers.described.clear()
    patterns = [read_back(sentence, numbers) for sentence in describe_result(result)]
    assert numbers.described == set(numbers.pairs)  # every pair has its sentence
    text = r"Reference losses(?: \(medians over the seeds' test sets\))?: noise floor 0\.0100, rule 1\.0000\."
    assert re.fullmatch(f"(?:{text})?", describe_references(result))
    return patterns


@settings(max_examples=200, deadline=None)
@given(comparisons())
def test_every_sentence_is_true(comparison: Comparison) -> None:
    check_sentences(comparison)


def differing(gaps: Sequence[float], *, start: float = 2.0) -> dict[int, float]:
    return {seed: start + gap for seed, gap in enumerate(gaps)}


ZERO = differing([0.0] * 9)
FAR = differing(range(5, 14))
ONE_OF_NINE = [1.0, 2.0, 3.0, -3.5, 4.5, 5.0, 6.0, 7.0, 8.0]
CASES: dict[str, Comparison] = {
    "is stricter than Holm's": compare(
        {"ay": ZERO, "bee": differing([gap / 16 for gap in ONE_OF_NINE]), "cee": FAR}
    ),
    "without an interval (needs 7 seeds without ties); ay is better in 6 of 9 seeds, 3 tied.": compare(
        {"ay": ZERO, "bee": differing([0.0] * 3 + [gap / 16 for gap in range(1, 7)]), "cee": FAR}
    ),
    "favors bee (p = 0.015, Holm), but ay is better in 21 of 40 seeds": compare(
        {"ay": differing([-gap if gap < 22 else gap for gap in range(1, 41)], start=99),
         "bee": differing([0.0] * 40, start=99)}
    ),
    "is unknown": compare({"ay": differing([INF, 0] * 4), "bee": differing([0, INF] * 4)}),
    "p is 0.023 for this pair alone, but 0.07 with Holm's correction for 3 pairs": compare(
        {"ay": differing([0] * 8, start=9), "bee": differing([1, -2, *range(3, 9)], start=9),
         "cee": differing([0] * 8, start=9)}
    ),
    "ay and bee diverged in all 6 seeds.": compare(dict.fromkeys(NAMES[:2], differing([INF] * 6))),
    "in all 6 seeds: both diverged in 2, and": compare(
        dict.fromkeys(NAMES[:2], differing([INF] * 2 + [0.5] * 4))
    ),
    "p cannot be below 0.062 (Holm)": compare({"ay": differing(range(6)), "bee": differing([0] * 6)}),
    "6 seeds are too few for 6 pairs": compare(
        {name: differing([k + 0.1 * seed * k for seed in range(6)]) for k, name in enumerate(NAMES)}
    ),
    "4 seeds are too few to tell ay and bee apart, whatever": compare(
        {"ay": differing([0] * 4), "bee": differing(range(1, 5))}
    ),
    "The test losses are in different units": compare(
        {"ay": ZERO, "bee": ZERO}, scalings=("none", "standard")
    ),
    "The variants differ in their data": compare(
        {"ay": ZERO, "bee": FAR}, kinds=("squares", "copy")
    ),
    "1 of 10 seeds of ay are unfinished": compare({"ay": ZERO, "bee": FAR}, 10),
    "2 of 9 seeds of ay diverged": compare(
        {"ay": {**ZERO, 1: INF, 4: INF}, "bee": FAR}, resampled=True
    ),
}  # fmt: skip


@pytest.mark.parametrize("words", CASES)
def test_a_sentence_that_is_rare(words: str) -> None:
    result, _ = CASES[words]
    assert any(words in sentence for sentence in describe_result(result))
    check_sentences(CASES[words])


def test_the_cases_have_every_kind_of_sentence() -> None:
    found = {pattern for words in CASES for pattern in check_sentences(CASES[words])}
    assert found == set(READERS)
