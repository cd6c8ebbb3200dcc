"""Beam search against an exhaustive search, sampling against probabilities, and forced outputs."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from seqattn.data.tokens import END, PAD
from seqattn.errors import UsageError
from seqattn.models import FeatureSpec, Seq2SeqModel, layers
from seqattn.models.decoding import Decoding, decode, force, log_probabilities
from tests.models.test_tokens import MODELS, built

N, S, T, V = 3, 5, 4, 6  # with the unknown symbol, 3 symbols and the end can be read
LENGTHS = torch.tensor([5, 2, 4])


def tiny(name: str) -> tuple[Seq2SeqModel, Tensor]:
    """A model with large weights, so that its distributions are far from uniform."""
    numbers = torch.Generator().manual_seed(3)
    source = torch.randint(4, V, (N, S, 1), generator=numbers)
    model = built(name, features=FeatureSpec(1, 1, (0,), V, V, (3, 3, 3, 3, 5, 3)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model, source


def log_prob_of(model: Seq2SeqModel, source: Tensor, symbols: tuple[int, ...]) -> float:
    """The log-probability of one output for one source (1, S, 1), from a forced pass."""
    target = torch.tensor(symbols).view(1, -1, 1)
    with torch.no_grad():
        found = log_probabilities(force(model, source, None, target).values)[0]
    return sum(float(found[t, symbol]) for t, symbol in enumerate(symbols))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("a", [0.0, 0.6, 2.0])
def test_a_wide_beam_finds_what_an_exhaustive_search_finds(name: str, a: float) -> None:
    model, source = tiny(name)
    symbols = range(3, V)
    every = [(*start, END) for n in range(T) for start in itertools.product(symbols, repeat=n)]
    found = decode(model, source, LENGTHS, T, Decoding(81, a, n_best=5))
    for n, length in enumerate(LENGTHS.tolist()):
        alone = source[n : n + 1, :length]
        log_probs = {one: log_prob_of(model, alone, one) for one in every}
        scores = {one: p / ((5 + len(one)) / 6) ** a for one, p in log_probs.items()}
        best = sorted(scores, key=lambda one: -scores[one])[:5]
        assert [tuple(row[row != PAD].tolist()) for row in found.symbols[n]] == best
        assert found.scores[n].tolist() == pytest.approx([scores[one] for one in best], abs=1e-9)
        assert found.log_probs[n].tolist() == pytest.approx([log_probs[k] for k in best], abs=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_a_narrow_beam_does_not_depend_on_its_batch(name: str) -> None:
    model, source = tiny(name)
    together = decode(model, source, LENGTHS, 9, Decoding(3, n_best=2))
    for n, length in enumerate(LENGTHS.tolist()):
        alone = decode(model, source[n : n + 1, :length], None, 9, Decoding(3, n_best=2))
        steps = alone.symbols.shape[-1]
        assert torch.equal(alone.symbols[0], together.symbols[n, :, :steps])
        assert not together.symbols[n, :, steps:].any()
        assert torch.allclose(alone.scores[0], together.scores[n], atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_a_large_batch_gives_what_a_small_one_gives(
    name: str, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more sequences than symbols, symbols are projected once; large tanh are sigmoids."""
    model, source = tiny(name)
    few = decode(model, source, LENGTHS, 9, Decoding(beam))
    monkeypatch.setattr(layers, "MIN_SIGMOID_NUMBERS", 1)
    many = decode(model, source.repeat(4, 1, 1), LENGTHS.repeat(4), 9, Decoding(beam))
    assert torch.equal(many.symbols, few.symbols.repeat(4, 1, 1))
    assert torch.allclose(many.scores, few.scores.repeat(4, 1), atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("beam", [1, 3])
def test_sequences_that_end_leave_the_batch(
    name: str, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The encoder reads each source once, and no step has more rows than beams that can win."""
    model, source = tiny(name)
    begin, step, rows = model.begin, model.decoder_step, list[int]()

    def counted(decoder_input: Tensor, *args: Any, **options: Any) -> Any:
        rows.append(len(decoder_input))
        return step(decoder_input, *args, **options)

    def once(sources: Tensor, *args: Any, **options: Any) -> Any:
        assert len(sources) == N
        return begin(sources, *args, **options)

    monkeypatch.setattr(model, "decoder_step", counted)
    monkeypatch.setattr(model, "begin", once)
    found = decode(model, source, LENGTHS, 30, Decoding(beam))
    assert rows[0] == N
    assert max(rows) <= N * beam
    if beam == 1:
        lengths = (found.symbols[:, 0] != PAD).sum(dim=-1)
        assert rows == [int((lengths > t).sum()) for t in range(len(rows))]
        forecast = model.forecast(source, 30, source_lengths=LENGTHS, with_attention=False).values
        read = model.target_modality.read(forecast)[..., 0]
        for n, length in enumerate(lengths.tolist()):
            assert torch.equal(read[n, :length], found.symbols[n, 0, :length])


def test_results_without_an_end_come_last() -> None:
    """After one step, only one result has ended; after two, the first beam may hold more."""
    model, source = tiny("additive")
    with torch.no_grad():
        model.output.bias[END] -= 30  # the end is very improbable
    found = decode(model, source, LENGTHS, 2, Decoding(4, n_best=4))
    ended = (found.symbols == END).any(dim=-1)
    assert ended.any() and not ended.all()
    for row, ends in zip(found.scores, ended, strict=True):
        assert row[ends].diff().le(0).all() and row[~ends].diff().le(0).all()
        assert not ends.int().diff().gt(0).any()  # none that has ended follows one that has not
    assert (found.scores[~ended] > found.scores[ended].max()).all()


def test_fewer_results_than_asked_for_have_the_probability_0() -> None:
    model, source = tiny("no attention")
    found = decode(model, source, LENGTHS, 1, Decoding(9, n_best=9))
    finite = found.log_probs.isfinite()
    assert finite.sum(dim=1).tolist() == [4] * N  # the end, and three symbols without an end
    assert found.log_probs[finite].view(N, 4).exp().sum(dim=1).tolist() == pytest.approx([1] * N)


def test_samples_follow_the_probabilities_of_the_model() -> None:
    model, source = tiny("additive")
    draws = 4000
    found = decode(model, source, LENGTHS, T, Decoding(n_best=draws, temperature=2.0))
    with torch.no_grad():
        first = force(model, source, LENGTHS, torch.full((N, 1, 1), END)).values[:, 0]
    expected = log_probabilities(first / 2).exp()
    for n in range(N):
        shares = torch.bincount(found.symbols[n, :, 0], minlength=V) / draws
        for symbol in range(V):
            p = float(expected[n, symbol])
            assert abs(float(shares[symbol]) - p) <= 5 * math.sqrt(p * (1 - p) / draws) + 1e-12
    again = decode(model, source[1:], LENGTHS[1:], T, Decoding(n_best=7, temperature=2.0), first=1)
    few = decode(model, source, LENGTHS, T, Decoding(n_best=7, temperature=2.0))
    assert torch.equal(again.symbols, few.symbols[1:])
    longer = decode(model, source, LENGTHS, T + 3, Decoding(n_best=3, temperature=2.0))
    drawn = {tuple(row) for row in few.symbols[1].tolist() if END in row}
    cut = {tuple(row[:T]) for row in longer.symbols[1].tolist() if END in row[:T]}
    assert cut <= drawn  # neither the number of steps nor that of samples changes a sample
    one = few.symbols[1, 0]
    symbols = tuple(one[one != PAD].tolist())
    assert float(few.log_probs[1, 0]) == pytest.approx(
        log_prob_of(model, source[1:2, :2], symbols), abs=1e-9
    )


def test_contradictions_are_refused() -> None:
    with pytest.raises(UsageError, match="--beam 3 or more"):
        Decoding(beam=2, n_best=3)
    with pytest.raises(UsageError, match="exclude each other"):
        Decoding(beam=2, temperature=1.0)
