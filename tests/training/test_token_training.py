"""Options of the training of symbols: smoothed labels, sampled feedback, dropped words, and batches
by length."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqattn.config import EmbeddingConfig, Training
from seqattn.data.tokens import BEGIN, END, PAD, UNKNOWN
from seqattn.models.modality import TokenModality
from seqattn.training.batches import Batch, DataLoader
from seqattn.training.learner import StepRNG
from seqattn.training.objective import AutogradLoss
from seqattn.training.process_group import ProcessGroup
from seqattn.training.state import StackedParams
from tests.models.test_tokens import MODELS, N, T, V, batch, built

RNG_LIKE = torch.zeros(1, dtype=torch.float64)


def rng(step: int = 0, seeds: tuple[int, ...] = (1,)) -> StepRNG:
    return StepRNG(seeds, 0, step, RNG_LIKE)


def configured(**keys: Any) -> TokenModality:
    modality = TokenModality(V, 3, EmbeddingConfig())
    modality.configure(Training(**keys))
    return modality


def test_smoothed_labels_by_hand() -> None:
    modality = configured(label_smoothing=0.3)
    outputs, (_, target, _) = torch.randn(N, T, V, dtype=torch.float64), batch()
    keep = torch.arange(T) < torch.tensor([1, 6, 2, 3, 5])[:, None]
    total = 0.0
    for n, t in zip(*np.nonzero(keep.numpy()), strict=True):
        log_p = outputs[n, t].log_softmax(-1)
        total -= 0.7 * float(log_p[target[n, t, 0]]) + 0.3 * float(log_p.mean())
    loss = modality.train().loss(outputs, target, keep)
    assert float(loss) == pytest.approx(total / int(keep.sum()), rel=1e-12)
    # A validation is not smoothed.
    plain = configured().loss(outputs, target, keep)
    assert float(modality.eval().loss(outputs, target, keep)) == pytest.approx(float(plain))
    reference = torch.nn.functional.cross_entropy(
        outputs.flatten(0, 1), target.flatten(), label_smoothing=0.3
    )
    assert float(modality.train().loss(outputs, target, None)) == pytest.approx(float(reference))


def test_sampled_feedback_follows_the_probabilities() -> None:
    modality, n = configured(feedback="sampled"), 20_000
    outputs = torch.tensor([9.0, 9.0, 0.0, 1.0, 2.0, -1.0] + [-9.0] * 5).expand(n, V)
    u = modality.draw_feedback(rng(), n, 1)
    assert u is not None
    drawn = modality.feed(outputs, u, 0)[:, 0]
    shares = torch.bincount(drawn, minlength=V) / n
    expected = torch.cat([torch.zeros(2), outputs[0, END:].softmax(-1)])
    for share, p in zip(shares.tolist(), expected.tolist(), strict=True):
        assert abs(share - p) <= 5 * math.sqrt(p * (1 - p) / n)
    assert modality.draw_feedback(None, n, 1) is None  # as in a validation
    assert configured().draw_feedback(rng(), n, 1) is None


@pytest.mark.parametrize("name", ["additive", "no attention", "fast weights"])
def test_a_sampled_symbol_is_the_next_input(name: str) -> None:
    """Free steps of a training pass are those of a pass that is forced to read the drawn symbols,
    and other numbers draw other symbols."""
    source, target, lengths = batch()
    model = built(name)
    model.target_modality.configure(Training(feedback="sampled"))
    free = torch.zeros(T, dtype=torch.bool)
    with torch.no_grad():
        found = model(source, target, source_lengths=lengths, teacher_forcing=free, rng=rng())
        u = rng().uniform("feedback", N, T)
        drawn = torch.stack(
            [model.target_modality.feed(found.values[:, t - 1], u, t) for t in range(1, T)],
            dim=1,
        )
        read = torch.cat([drawn, target[:, :1]], dim=1)
        forced = model(source, read, source_lengths=lengths, teacher_forcing=~free)
        other = model(source, target, source_lengths=lengths, teacher_forcing=free, rng=rng(1))
    assert torch.allclose(found.values, forced.values, atol=1e-12)
    assert not torch.allclose(found.values, other.values)


def test_dropped_words_are_unknown_symbols() -> None:
    modality = TokenModality(V, 3, EmbeddingConfig(word_dropout=0.25))
    steps = torch.randint(4, V, (200, 50, 1))
    steps[:, 40:] = PAD
    steps[:, 0] = BEGIN
    read = modality.drop_words(steps, rng())
    changed = (read != steps)[:, 1:40]
    assert torch.equal(read[:, 40:], steps[:, 40:]) and torch.equal(read[:, 0], steps[:, 0])
    assert (read[read != steps] == UNKNOWN).all()
    assert abs(float(changed.double().mean()) - 0.25) < 5 * math.sqrt(0.25 * 0.75 / changed.numel())
    assert modality.drop_words(steps, None) is steps


def test_dropout_of_embeddings_keeps_the_mean() -> None:
    modality = TokenModality(V, 30, EmbeddingConfig(dropout=0.2))
    factors = modality.embedding_dropout(rng(), 40, 50, RNG_LIKE)
    assert factors is not None and set(factors.unique().tolist()) == {0, 1.25}
    assert abs(float(factors.mean()) - 1) < 0.01


OPTIONS = {"dropout": 0.3, "word_dropout": 0.3}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["free", "mixed", "forced"])
def test_runs_side_by_side_draw_what_runs_alone_draw(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformer = "transformer" in name
    if transformer and kind != "forced":
        return  # a Transformer reads the targets in training
    section = MODELS[name].get("embedding", {}) | OPTIONS
    monkeypatch.setitem(MODELS, name, MODELS[name] | {"embedding": section})
    models = [built(name, seed) for seed in (1, 2, 3)]
    for model in models:
        model.target_modality.configure(Training(feedback="sampled", label_smoothing=0.1))
        model.train()
    source, target, lengths = batch()
    coins = torch.rand(3, 1, T, generator=torch.Generator().manual_seed(4)) < 0.5
    mask = {"free": coins & False, "mixed": coins, "forced": coins | True}[kind]
    alone = []
    for k, model in enumerate(models):
        loss = AutogradLoss(model, StackedParams([model]))
        one = Batch(source, target, lengths)
        alone.append(loss.value_and_grad(one, mask[k, 0], rng(seeds=(k + 5,))))
    stack = StackedParams(models)
    stack.model.train()
    three = Batch(*(tensor.expand(3, *tensor.shape) for tensor in (source, target, lengths)))
    together = AutogradLoss(stack.model, stack).value_and_grad(three, mask, rng(seeds=(5, 6, 7)))
    assert torch.allclose(together, torch.stack(alone), atol=1e-10)


def batch_of_lengths(n: int) -> tuple[Batch, Tensor, Tensor]:
    numbers = torch.Generator().manual_seed(1)
    source_lengths = torch.randint(1, 9, (n,), generator=numbers)
    target_lengths = torch.randint(1, 7, (n,), generator=numbers)
    source = torch.arange(n).view(n, 1, 1) * 10 + torch.arange(8).view(8, 1)
    target = torch.arange(n).view(n, 1, 1) * 10 + torch.arange(6).view(6, 1)
    keep = torch.arange(6) < target_lengths[:, None]
    return Batch(source, target, source_lengths, keep), source_lengths, target_lengths


def test_batches_by_length_have_little_padding_and_every_sequence() -> None:
    n, size = 103, 10
    sequences, source_lengths, target_lengths = batch_of_lengths(n)
    loader = DataLoader([sequences], size, None, by_length=True)
    fetch, seen = loader.shuffled([3], 2), list[int]()
    for step in range(11):
        found = fetch(step)
        ids = (found.source[:, 0, 0] // 10).tolist()
        seen += ids
        assert found.source_steps == int(source_lengths[ids].max())
        assert found.target_steps == int(target_lengths[ids].max())
        assert torch.equal(found.source, sequences.source[ids, : found.source_steps])
        assert torch.equal(found.target, sequences.target[ids, : found.target_steps])
        assert found.target_keep is not None and sequences.target_keep is not None
        assert torch.equal(found.target_keep, sequences.target_keep[ids, : found.target_steps])
        assert [str(k) for k in ids] == loader.ids_of_batch(step, 3, 2, ())
        if step < 10:  # lengths in a batch are neighbours in the sorted order
            assert int(source_lengths[ids].max() - source_lengths[ids].min()) <= 2
    assert sorted(seen) == list(range(n))
    # A function of seed and epoch: other epochs and seeds have another order, and the last batch
    # has the longest sources.
    assert loader.order([3], 2).tolist() == seen
    assert loader.order([3], 3).tolist() != seen != loader.order([4], 2).tolist()
    assert int(source_lengths[seen[100:]].min()) == int(source_lengths.max())


@pytest.mark.parametrize("tokens", [8, 37, 10_000])
def test_a_batch_of_tokens_has_as_many_sequences_as_fit(tokens: int) -> None:
    n = 103
    sequences, source_lengths, target_lengths = batch_of_lengths(n)
    loader = DataLoader([sequences], tokens, None, by_length=True, of_tokens=True)
    lengths = torch.maximum(source_lengths, target_lengths)
    for epoch in (0, 1):
        fetch, batches = loader.shuffled([3], epoch), list[list[int]]()
        for step in range(len(loader.batches(epoch))):
            found = fetch(step)
            ids = (found.source[:, 0, 0] // 10).tolist()
            batches.append(ids)
            assert found.source_steps == int(source_lengths[ids].max())
            assert found.target_steps == int(target_lengths[ids].max())
            assert len(ids) * int(lengths[ids].max()) <= tokens
            assert [str(k) for k in ids] == loader.ids_of_batch(step, 3, epoch, ())
        assert sorted(itertools.chain(*batches)) == list(range(n))
        # Of the sequences sorted by length, the first of the next batch did not fit.
        pairs = [[(int(source_lengths[k]), int(target_lengths[k])) for k in ids] for ids in batches]
        pairs.sort(key=lambda of: (of[0], -len(of), of))
        for one, following in itertools.pairwise(pairs):
            assert (len(one) + 1) * max(itertools.chain(*one, following[0])) > tokens
    if tokens == 37:
        orders = [loader.order([seed], epoch).tolist() for seed, epoch in ((3, 0), (3, 1), (4, 0))]
        assert orders[0] != orders[1] and orders[0] != orders[2]
        sizes = [[batch.shard.n for batch in loader.batches(epoch)] for epoch in (0, 1)]
        assert sizes[0] != sizes[1] and sorted(sizes[0]) == sorted(sizes[1])


def test_processes_share_batches_of_tokens() -> None:
    sequences, *_ = batch_of_lengths(64)
    groups = [ProcessGroup(rank, 2, torch.device("cpu")) for rank in range(2)]
    whole, *shares = (
        DataLoader([sequences], 30, group, by_length=True, of_tokens=True)
        for group in (None, *groups)
    )
    fetch = [loader.shuffled([3], 1) for loader in (whole, *shares)]
    for step, whole_batch in enumerate(whole.batches(1)):
        all_of_it, *parts = (one(step) for one in fetch)
        ids = [int(k) // 10 for part in parts for k in part.source[:, 0, 0]]
        assert ids == (all_of_it.source[:, 0, 0] // 10).tolist()
        assert [loader.batches(1)[step].shard.n for loader in shares] == [whole_batch.shard.n] * 2


@pytest.mark.parametrize(("size", "of_tokens"), [(8, False), (40, True)])
def test_runs_side_by_side_have_the_batches_of_runs_alone(size: int, of_tokens: bool) -> None:
    sequences, *_ = batch_of_lengths(64)
    of_one, of_both = (
        DataLoader([sequences] * count, size, None, by_length=True, of_tokens=of_tokens)
        for count in (1, 2)
    )
    alone = [of_one.shuffled([k], 1) for k in (3, 4)]
    together = of_both.shuffled([3, 4], 1)
    for step in range(len(of_both.batches(1))):
        both = together(step)
        for k, one in enumerate(alone):
            found = one(step)
            assert torch.equal(both.source[k], found.source)
            assert torch.equal(both.target[k], found.target)
