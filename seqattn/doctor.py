"""What a run's weights and losses show, in plain words: each finding with its number, what it means
and the line to change.

Letters: N sequences, L layers, A heads, T target steps, S source steps. NumPy only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqattn.attention import Override
from seqattn.data import Sequences, Splits
from seqattn.data.file_dataset import check_observed
from seqattn.errors import UsageError
from seqattn.evaluation import References, evaluate_and_forecast, free_run, loss_of
from seqattn.runs import EpochRecord, RunFolder
from seqattn.training import LoadedModel, teacher_forcing_probability

State = Literal["found", "fine", "unknown"]

UNIFORM = 0.95  # of the entropy there could be
DEAD = 0.99
STUCK = 0.95  # of all steps have their largest weight on one source step
IDENTICAL = 0.02  # mean total variation distance between two heads
SATURATED = 0.999  # the largest weight of a step
MOST_SATURATED = 0.95  # of all steps
PADDED = 1e-6
MATTERS = 1.02  # loss without the model's own weights, of that with them
EXPOSED = 1.5  # free running, of teacher-forced
EXPOSED_SHARE = 0.01  # of the best parameter-free baseline's loss
LINEAR_SHARE = 0.01  # of the best parameter-free baseline's loss, by which a linear map is better
APART = 2.0  # worst seed, of the median
MEMORIZED = 0.7  # of the training loss at the best epoch is left at the end
ROSE = 1.25  # validation loss at the end, of the best
GAP = 3.0  # teacher-forced validation loss at the end, of the training loss
FEWEST_EPOCHS = 10  # for a trend
MOST_SEQUENCES = 512


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: of it.
        state: "found"; "fine" where it was looked for and is not there; "unknown" where this run
            cannot tell.
        number: what was measured, in words.
        meaning: what follows from it.
        change: a line of the config to try, or of the command line; empty where all is fine.
    """

    name: str
    state: State
    number: str
    meaning: str = ""
    change: str = ""

    def as_plain(self) -> dict[str, str]:
        return dict(vars(self))


@dataclass(frozen=True)
class Evidence:
    """What findings are made of.

    Attributes:
        weights: (N, L, A, T, S) of cross-attention, NaN at padding; None without attention.
        meaning: of the numbers; see `seqattn.models.AttentionMap`.
        source_lengths: (N,).
        alignment: (N, T) the source step that tells each target step, -1 where none does.
        padding_mass: the largest sum of a step's weights on padding.
        normalizer: what makes weights of scores: softmax, sparsemax, hard; "" elsewhere.
        loss, forced: free running, and teacher-forced.
        without: way -> loss where the weights are not the model's own.
        baseline: name and loss of the best parameter-free baseline.
        fitted: name and loss of the best baseline with fitted parameters; None: there is none.
        seeds: test losses of this run's seeds, where there are several.
        kind: of the model: recurrent, transformer, fast_weights.
        forcing: schedule of teacher forcing, and the chance of the truth in the last epoch.
        history: the epochs of the training; empty where they are not known.
    """

    weights: NDArray[np.float32] | None
    meaning: str
    source_lengths: NDArray[np.int64]
    alignment: NDArray[np.int64] | None
    padding_mass: float
    normalizer: str
    loss: float
    forced: float
    without: dict[str, float]
    baseline: tuple[str, float]
    seeds: tuple[float, ...] = ()
    kind: str = "recurrent"
    forcing: tuple[str, float] = ("constant", 1.0)
    fitted: tuple[str, float] | None = None
    history: tuple[EpochRecord, ...] = ()


def evidence(
    trained: LoadedModel,
    data: Splits,
    seeds: Sequence[float] = (),
    history: Sequence[EpochRecord] = (),
) -> Evidence:
    """Run a model over its test sequences, five hundred at most: on its own, fed the truth, and
    with weights that are not its own.

    Args:
        seeds: test losses of this run's seeds, where there are several.
        history: the epochs of its training, for trends; empty where they are not known.
    """
    part = data.test.at(slice(0, MOST_SEQUENCES))
    check_observed(part, f"the first {len(part)} test sequences")
    against = References.of_data(part, data)
    scored, free = evaluate_and_forecast(trained.model, part, against, data.scaling)
    weights = None
    if free.maps:
        weights = np.asarray(free.attention_arrays(part, steps_real=True)["weights"], np.float32)
    attention = getattr(trained.config.model, "attention", None)
    training = trained.config.training
    told_at_the_end = teacher_forcing_probability(
        training.teacher_forcing, training.epochs - 1, training.epochs
    )
    return Evidence(
        weights=weights,
        meaning=free.meaning,
        source_lengths=part.source_lengths,
        alignment=part.alignment,
        padding_mass=_padding_mass(free.maps.get("cross"), part),
        normalizer=str(getattr(attention, "normalizer", "softmax")) if weights is not None else "",
        loss=scored.loss,
        forced=scored.loss_teacher_forced,
        without=_without(trained, part, data) if weights is not None else {},
        baseline=(scored.best_baseline, against.baselines[scored.best_baseline]),
        seeds=tuple(seeds),
        kind=trained.config.model.kind,
        forcing=(training.teacher_forcing.schedule, told_at_the_end),
        fitted=min(against.fitted.items(), key=lambda item: item[1], default=None),
        history=tuple(history),
    )


def _padding_mass(weights: NDArray[np.float32] | None, part: Sequences) -> float:
    if weights is None:
        return 0.0
    on_padding = (
        ~part.source_keep[:, None, None, None, :] & part.target_keep[:, None, None, :, None]
    )
    return float(np.abs(np.where(on_padding, weights, 0.0)).sum(axis=-1).max(initial=0.0))


def _without(trained: LoadedModel, part: Sequences, data: Splits) -> dict[str, float]:
    found = dict[str, float]()
    for way in ("uniform", "shuffled"):
        try:
            free = free_run(
                trained.model, part, part.target_steps, Override.parse(way),
                with_attention=False, scaling=data.scaling,
            )  # fmt: skip
        except UsageError:  # weights that nothing could stand in for
            return {}
        loss = loss_of(free, part, data.scaling)
        assert loss is not None
        found[way] = loss
    return found


def examine(seen: Evidence) -> list[Finding]:
    """Every finding, looked for in the order of what to mend first; those about weights only where
    the model has attention."""
    if seen.weights is None:
        return [_baseline(seen), _exposed(seen), _apart(seen), _overfitting(seen)]
    return [
        _padding(seen), _baseline(seen), _uniform(seen), _stuck(seen), _off_by_one(seen),
        _saturated(seen), _dead(seen), _identical(seen), _matters(seen), _exposed(seen),
        _apart(seen), _overfitting(seen),
    ]  # fmt: skip


SEEDS_APART = "seeds fall apart"
NAMES = (
    "mass on padding", "worse than a baseline", "nearly uniform", "stuck on one source step",
    "alignment off by one", "saturated softmax", "dead heads", "identical heads",
    "attention does not matter", "exposure bias", SEEDS_APART, "overfitting",
)  # fmt: skip
ABOUT_WEIGHTS = (NAMES[0], *NAMES[2:9])


def _padding(seen: Evidence) -> Finding:
    name = NAMES[0]
    number = f"up to {seen.padding_mass:.2g} of a step's weight lies on padding"
    if seen.padding_mass <= PADDED:
        return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        "The mask does not hold: what stands behind a sequence's end is read as if it were data.",
        "a mistake in the model, not in the config: compare with --set"
        " model.attention.score=dot; to train around it, data.variable_length: false",
    )  # fmt: skip


def _baseline(seen: Evidence) -> Finding:
    """Against the best parameter-free baseline, and against a fitted one. A task that is exactly
    linear has a fitted loss of about 0, so a fitted baseline must be better by a share of the
    other's loss to count."""
    name, (what, loss) = NAMES[1], seen.baseline
    number = f"loss {seen.loss:.4g}, against {loss:.4g} of {what!r}"
    if seen.fitted is not None:
        number += f" and {seen.fitted[1]:.4g} of {seen.fitted[0]!r}"
    change = (
        "training.epochs: (more), or training.learning_rate: 0.003; then model.hidden_dim: (wider)"
    )
    if _overfitting(seen).state == "found":
        change = LESS_OVERFITTING
    follows = "" if seen.weights is None else (
        ": whatever the weights show is not what solves the task"
    )  # fmt: skip
    if seen.loss >= loss:
        return Finding(
            name, "found", number, f"A rule without parameters forecasts better{follows}.", change
        )
    if seen.fitted is not None and seen.loss - seen.fitted[1] > LINEAR_SHARE * loss:
        return Finding(name, "found", number, f"A linear map forecasts better{follows}.", change)
    return Finding(name, "fine", number)


def _rows(seen: Evidence, layer: int, head: int) -> NDArray[np.float32]:
    """Weights of all real steps over a source of two points or more, one below the other."""
    assert seen.weights is not None
    long = seen.source_lengths > 1
    rows = seen.weights[long, layer, head].reshape(-1, seen.weights.shape[-1])
    return np.asarray(rows[np.isfinite(rows).any(axis=1)], dtype=np.float32)


def _heads(seen: Evidence) -> Iterator[tuple[int, int]]:
    if seen.weights is not None:
        yield from np.ndindex(*seen.weights.shape[1:3])


def _head(seen: Evidence, layer: int, head: int) -> str:
    assert seen.weights is not None
    _, L, A, *_ = seen.weights.shape
    words = [f"layer {layer}"] * (L > 1) + [f"head {head}"] * (A > 1)
    return ", ".join(words)


def entropy_share(rows: NDArray[np.float32]) -> float:
    """Mean entropy of rows of weights, as a share of the logarithm of how many there could be."""
    real = np.isfinite(rows)
    p = np.where(real, rows, 0.0).astype(np.float64)
    logs = np.log(np.where(p > 0, p, 1.0))
    return float(np.mean(-(p * logs).sum(axis=1) / np.log(real.sum(axis=1))))


def _shares(seen: Evidence) -> dict[tuple[int, int], float]:
    return {
        (layer, head): entropy_share(rows)
        for layer, head in _heads(seen)
        if len(rows := _rows(seen, layer, head))
    }


def _uniform(seen: Evidence) -> Finding:
    name = NAMES[2]
    if (unknown := _no_distribution(seen, name)) is not None:
        return unknown
    shares = _shares(seen)
    if not shares:
        return Finding(name, "unknown", "no source has two points or more")
    share = float(np.mean(list(shares.values())))
    number = f"entropy {share:.0%} of what it could be"
    if share < UNIFORM:
        return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        "The weights hardly prefer any source step: the context is their mean, whatever is asked.",
        "model.attention.score: general (or additive); with dot scores model.hidden_dim: (wider);"
        " training.epochs: (more)",
    )  # fmt: skip


def _stuck(seen: Evidence) -> Finding:
    name = NAMES[3]
    if (unknown := _no_distribution(seen, name)) is not None:
        return unknown
    assert seen.weights is not None
    if seen.weights.shape[-2] < 2:
        return Finding(name, "unknown", "there is one target step only, so one query")
    found, shares = list[str](), list[float]()
    for layer, head in _heads(seen):
        rows = _rows(seen, layer, head)
        if not len(rows):
            return Finding(name, "unknown", "no source has two points or more")
        places = np.nanargmax(rows, axis=1)
        # From the end too: in sources of several lengths the last point has many places.
        from_end = np.isfinite(rows).sum(axis=1) - places
        ((place, count),) = Counter(places.tolist()).most_common(1)
        ((behind, counted),) = Counter(from_end.tolist()).most_common(1)
        share = max(count, counted) / len(rows)
        shares.append(share)
        if share >= STUCK and entropy_share(rows) < UNIFORM:
            where = f"source point {place + 1}" if count >= counted else f"{behind} from the end"
            head_name = _head(seen, layer, head)
            found.append(
                f"{share:.0%} of the steps at {where}" + f" ({head_name})" * bool(head_name)
            )
    if len(found) < len(shares):
        number = f"{shares[0]:.0%} of the steps have their largest weight at one place"
        if shares[0] >= STUCK:
            number = "it looks everywhere alike, see nearly uniform"
        if len(shares) > 1:
            number = f"{len(found)} of {len(shares)} heads look at one place"
        return Finding(name, "fine", number)
    return Finding(
        name, "found", "; ".join(found[:4]),
        "It looks at one place whatever the query, so the weights carry nothing from step to step.",
        "model.input_feeding: true, or model.attention.score: additive, so that queries differ;"
        " training.learning_rate: (lower) if it went there early",
    )  # fmt: skip


def _off_by_one(seen: Evidence) -> Finding:
    name = NAMES[4]
    assert seen.weights is not None
    if seen.alignment is None or not (seen.alignment >= 0).any():
        return Finding(name, "unknown", "no alignment is known for this task")
    if (unknown := _no_distribution(seen, name)) is not None:
        return unknown
    own, beside = 0.0, (0.0, 0)
    known = seen.alignment >= 0
    S = seen.weights.shape[-1]
    for layer, head in _heads(seen):
        looks = np.nan_to_num(seen.weights[:, layer, head], nan=-1.0).argmax(axis=-1)[known]
        true, lengths = (
            np.broadcast_to(values, seen.alignment.shape)[known]
            for values in (seen.alignment, np.minimum(seen.source_lengths, S)[:, None])
        )
        own = max(own, float(np.mean(looks == true)))
        for shift in (-1, 1):
            inside = (true + shift >= 0) & (true + shift < lengths)
            share = float(np.mean(looks[inside] == true[inside] + shift)) if inside.any() else 0.0
            beside = max(beside, (share, shift))
    share, shift = beside
    if share <= own or share < 0.5:
        return Finding(name, "fine", "no neighbour of the true step is looked at more often")
    side = "before" if shift < 0 else "after"
    return Finding(
        name, "found",
        f"{share:.0%} of the steps look at the point {side} the true one, {own:.0%} at it",
        "A recurrent state beside the true one has what is wanted, too; or the data are shifted by"
        " a step. A heatmap would be read wrongly.",
        "model.bidirectional: false, or model.kind: transformer, with a state of each point;"
        " for your own data check the first step of the target",
    )  # fmt: skip


def _saturated(seen: Evidence) -> Finding:
    name = NAMES[5]
    if (unknown := _no_distribution(seen, name)) is not None:
        return unknown
    if seen.normalizer != "softmax":
        return Finding(name, "unknown", f"{seen.normalizer} is meant to choose sharply")
    rows = [rows for place in _heads(seen) if len(rows := _rows(seen, *place))]
    if not rows:
        return Finding(name, "unknown", "no source has two points or more")
    share = float(np.mean([np.mean(np.nanmax(of_head, axis=1) > SATURATED) for of_head in rows]))
    number = f"{share:.0%} of the steps have a weight above {SATURATED}"
    if share < MOST_SATURATED:
        return Finding(name, "fine", number)
    if _accuracy(seen) >= UNIFORM:
        return Finding(name, "fine", f"{number}, and it is the true step's")
    return Finding(
        name, "found", number,
        "The softmax has gone to its end: its gradient is almost zero, so where it looks can hardly"
        " be learned any more.",
        "model.attention.score: scaled_dot (or cosine), training.clip_norm: 1.0, or"
        " training.learning_rate: (lower)",
    )  # fmt: skip


def _accuracy(seen: Evidence) -> float:
    if seen.alignment is None or seen.weights is None or not (seen.alignment >= 0).any():
        return 0.0
    known = seen.alignment >= 0
    return max(
        float(np.mean(np.nan_to_num(seen.weights[:, i, j], nan=-1.0).argmax(axis=-1)[known]
                      == seen.alignment[known]))
        for i, j in _heads(seen)
    )  # fmt: skip


def _dead(seen: Evidence) -> Finding:
    name = NAMES[6]
    if (unknown := _no_heads(seen, name)) is not None:
        return unknown
    shares = _shares(seen)
    dead = [place for place, share in shares.items() if share >= DEAD]
    if not dead or len(dead) == len(shares):  # all of them: nearly uniform says so
        return Finding(name, "fine", f"{len(dead)} of {len(shares)} heads look everywhere alike"
                       + (", see nearly uniform" if dead else ""))  # fmt: skip
    named = ", ".join(_head(seen, *place) for place in dead[:6])
    return Finding(
        name, "found", f"{named} of {len(shares)} heads look everywhere alike",
        "A head that looks nowhere in particular gives every step the same mean.",
        "heads: (fewer), or training.epochs: (more)",
    )  # fmt: skip


def _identical(seen: Evidence) -> Finding:
    name = NAMES[7]
    if (unknown := _no_heads(seen, name)) is not None:
        return unknown
    assert seen.weights is not None
    _, L, A, *_ = seen.weights.shape
    pairs = dict[tuple[int, int, int], float]()
    for layer in range(L):
        heads = [_rows(seen, layer, head) for head in range(A)]
        for i in range(A):
            for j in range(i + 1, A):
                apart = np.nansum(np.abs(heads[i] - heads[j]), axis=1) / 2
                pairs[layer, i, j] = float(apart.mean()) if len(apart) else np.nan
    closest = min(pairs, key=lambda place: pairs[place])
    number = f"the two heads most alike share {1 - pairs[closest]:.1%} of their weight"
    same = [place for place, apart in pairs.items() if apart < IDENTICAL]
    if not same:
        return Finding(name, "fine", number)
    named = "; ".join(f"layer {i}: heads {j} and {k}" for i, j, k in same[:4])
    return Finding(
        name, "found", f"{number} ({named})",
        "Heads that look alike are one head with more parameters.",
        "heads: (fewer), or training.epochs: (more) if they all begin alike",
    )  # fmt: skip


def _matters(seen: Evidence) -> Finding:
    name = NAMES[8]
    if not seen.without:
        return Finding(name, "unknown", "nothing can stand in for these weights")
    way = min(seen.without, key=lambda known: seen.without[known])
    number = ", ".join(
        [f"loss {seen.loss:.4g} by its own weights",
         *(f"{loss:.4g} {known}" for known, loss in seen.without.items())]
    )  # fmt: skip
    if seen.without[way] > MATTERS * seen.loss:
        return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        f"With {way} weights it forecasts as well: the task is solved without attention, and the"
        " heatmap explains nothing.",
        "model.hidden_dim: (narrower), longer sequences, or a task that needs it: recall",
    )  # fmt: skip


def _exposed(seen: Evidence) -> Finding:
    name = NAMES[9]
    ratio = seen.loss / seen.forced if seen.forced > 0 else 1.0
    number = f"free running {seen.loss:.4g}, {ratio:.2f} times the teacher-forced {seen.forced:.4g}"
    if ratio < EXPOSED or seen.loss - seen.forced < EXPOSED_SHARE * seen.baseline[1]:
        return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        "It has learned to go on from the truth, not from what it said itself; on its own, mistakes"
        " grow.",
        _less_truth(seen.kind, *seen.forcing),
    )  # fmt: skip


def _less_truth(kind: str, schedule: str, chance: float) -> str:
    """What to change so that a model learns from its own words.

    Args:
        chance: of the truth in the last epoch.
    """
    if kind == "transformer":
        return (
            "model.kind: recurrent, with training.teacher_forcing.probability: 0.5 (a transformer"
            " is always told the truth); or training.epochs: (more)"
        )
    if chance == 0:
        return "training.epochs: (more), or model.hidden_dim: (wider): it hears itself already"
    down = "training.teacher_forcing: {schedule: linear, end: 0}"
    if schedule == "constant" and chance > 0.5:
        return f"training.teacher_forcing.probability: 0.5, or {down}"
    return down


def _apart(seen: Evidence) -> Finding:
    return seeds_apart(seen.seeds)


def seeds_apart(seeds: Sequence[float]) -> Finding:
    """Whether what came of several seeds is one thing.

    Args:
        seeds: their test losses; inf of those that diverged.
    """
    name = NAMES[10]
    if len(seeds) < 3:
        return Finding(name, "unknown", "fewer than three seeds; train with --seeds 8")
    median, worst, lost = float(np.median(seeds)), max(seeds), sum(map(math.isinf, seeds))
    last = f"{lost} diverged" if lost else f"worst {worst:.4g}"
    number = f"{len(seeds)} seeds, median {median:.4g}, {last}"
    if worst < APART * median:
        return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        "What one seed shows is luck: some get stuck where others do not.",
        "training.learning_rate: (lower), training.clip_norm: 1.0, model.hidden_dim: (wider);"
        " and say nothing from one seed",
    )  # fmt: skip


LESS_OVERFITTING = (
    "more training sequences (data.n_train, or a larger file), model.hidden_dim: (narrower), or"
    " training.weight_decay: 0.01 with training.optimizer: adamw; early_stopping saves the time"
)


def _overfitting(seen: Evidence) -> Finding:
    """Whether the training sequences are fitted at the expense of others: training went on to fit
    them after validation had stopped improving, or fits them several times better.

    Losses are means over a twentieth of the epochs, so that one epoch's noise decides nothing.
    Training is under teacher forcing, partly at least, so it is compared with teacher-forced
    validation.
    """
    name, epochs = NAMES[11], len(seen.history)
    if epochs < FEWEST_EPOCHS:
        return Finding(name, "unknown", f"needs the losses of {FEWEST_EPOCHS} epochs, has {epochs}")
    width = max(3, epochs // 20)
    training, validation, forced = (
        np.convolve([getattr(record, key) for record in seen.history], np.full(width, 1 / width),
                    "valid")
        for key in ("train_loss", "validation_loss", "validation_loss_teacher_forced")
    )  # fmt: skip
    best = int(validation.argmin())
    fell, rose = training[-1] / training[best], validation[-1] / validation[best]
    goes_on = fell <= MEMORIZED or (fell <= 1 and rose >= ROSE)
    if forced[-1] >= GAP * training[-1]:
        number = (
            f"the training loss is {training[-1]:.4g} at the end, teacher-forced validation"
            f" {forced[-1]:.4g}"
        )
    else:
        number = (
            f"from about epoch {best + width} to {epochs} the training loss went from"
            f" {training[best]:.4g} to {training[-1]:.4g}, validation from {validation[best]:.4g}"
            f" to {validation[-1]:.4g}"
        )
        if not goes_on:
            return Finding(name, "fine", number)
    return Finding(
        name, "found", number,
        "It fits the training sequences and not what holds for others (or the parts differ in"
        " kind). The kept weights are those of the best validation loss; more epochs do not help.",
        LESS_OVERFITTING,
    )  # fmt: skip


def _no_distribution(seen: Evidence, name: str) -> Finding | None:
    if seen.meaning == "strength":
        return Finding(name, "unknown", "read strengths are no shares of a whole")
    return None


def _no_heads(seen: Evidence, name: str) -> Finding | None:
    if (unknown := _no_distribution(seen, name)) is not None:
        return unknown
    assert seen.weights is not None
    if seen.weights.shape[2] < 2:
        return Finding(name, "unknown", "there is one head")
    if not (seen.source_lengths > 1).any():
        return Finding(name, "unknown", "no source has two points or more")
    return None


def history_of(folder: RunFolder) -> list[EpochRecord]:
    """The epochs of a run's training; none beside a checkpoint that stands alone."""
    return folder.read_metrics() if folder.metrics.exists() else []


def losses_beside(folder: RunFolder) -> list[float]:
    """Test losses of the seeds that a run was trained with, inf of those that diverged; none of a
    run by itself."""
    path = folder.path
    if not path.name.startswith("seed-"):
        return []
    beside = [RunFolder(found) for found in sorted(path.parent.glob("seed-*"))]
    summaries = [run.read_summary() for run in beside if run.summary.exists()]
    return [
        math.inf if summary.get("diverged") else float(summary["test_loss"])
        for summary in summaries
    ]


def told(findings: Sequence[Finding]) -> str:
    """All findings in a sentence."""
    found = [finding.name for finding in findings if finding.state == "found"]
    looked = sum(finding.state != "unknown" for finding in findings)
    if not found:
        return f"Nothing found in {looked} things looked for."
    return f"Found {len(found)} of {looked} things looked for: {', '.join(found)}."


def as_plain(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    return [finding.as_plain() for finding in findings]
