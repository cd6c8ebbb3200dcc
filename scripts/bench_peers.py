"""The loops of other libraries for scripts/bench.py, and a Transformer against nn.Transformer."""

from __future__ import annotations

import importlib.util
import math
import statistics
import time
from typing import Any

import notebook
import practised
import torch
from bench_results import BenchTable, seconds
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from workloads import Work, paths, seqattn_loop

from seqattn.config import ConstantForcing, Training, Transformer
from seqattn.models import build_model
from seqattn.training import RunProgress, TrainingRun
from seqattn.training.learner import build_group
from seqattn.training.loop import train_step


def practised_loop(work: Work) -> None:
    """Train as a practised user of torch would; see scripts/practised.py."""
    practised.train_practised(
        work.data.source, work.data.target, hidden=work.hidden, batch_size=work.batch_size,
        epochs=work.epochs,
    )  # fmt: skip


def lightning_loop(work: Work) -> None:
    """Train the notebook's model with Lightning's `Trainer`."""
    import logging
    import warnings

    import lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    loss_of = nn.MSELoss()

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = notebook.NotebookModel(2, work.hidden)

        def training_step(self, batch: list[Tensor], _: int) -> Tensor:
            return loss_of(self.model(*batch, 0.5), batch[1])

        def validation_step(self, batch: list[Tensor], _: int) -> None:
            loss_of(self.model(*batch, 0.0), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    trainer = lightning.Trainer(
        max_epochs=work.epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(
        Module(),
        DataLoader(
            TensorDataset(work.data.source, work.data.target), work.batch_size, shuffle=True
        ),
        DataLoader(TensorDataset(work.validation.source, work.validation.target), 128),
    )


def jax_loop(work: Work) -> tuple[float, float]:
    """Train the same model in JAX, with a whole epoch as one compiled function.

    Returns:
        The time of the compilation, and the time of the training after it, in seconds.
    """
    import jax
    import jax.numpy as jnp

    H, (n, _, F), T = work.hidden, work.data.source.shape, work.data.target.shape[1]
    size, rate = work.batch_size, 0.01
    source, target = jnp.asarray(work.data.source.numpy()), jnp.asarray(work.data.target.numpy())
    valid = jnp.asarray(work.validation.source.numpy()), jnp.asarray(work.validation.target.numpy())
    shapes = {
        "encoder": [(3 * H, F), (3 * H, H), (3 * H,), (3 * H,)],
        "decoder": [(3 * H, F), (3 * H, H), (3 * H,), (3 * H,)],
        "attention": [(H, H), (H,), (H, H), (H,)], "output": [(F, 2 * H), (F,)],
    }  # fmt: skip
    keys = iter(jax.random.split(jax.random.key(1), 14))
    weights = {
        name: [jax.random.uniform(next(keys), shape, minval=-1, maxval=1) / math.sqrt(H)
               for shape in own]
        for name, own in shapes.items()
    }  # fmt: skip

    def cell(own: Any, x: Any, h: Any) -> Any:
        W, U, b, c = own
        r1, z1, n1 = jnp.split(x @ W.T + b, 3, -1)
        r2, z2, n2 = jnp.split(h @ U.T + c, 3, -1)
        r, z = jax.nn.sigmoid(r1 + r2), jax.nn.sigmoid(z1 + z2)
        new = jnp.tanh(n1 + r * n2)
        return new + z * (h - new)

    def forecast(w: Any, source: Any, target: Any, forced: Any) -> Any:
        def read(h: Any, x: Any) -> Any:
            h = cell(w["encoder"], x, h)
            return h, h

        h, states = jax.lax.scan(read, jnp.zeros((len(source), H)), source.swapaxes(0, 1))
        A, a, B, b = w["attention"]
        values = states.swapaxes(0, 1)
        memory = values @ B.T + b
        truth = jnp.concatenate([source[:, -1:], target[:, :-1]], 1).swapaxes(0, 1)

        def decode_step(carry: Any, step: Any) -> Any:
            h, point = carry
            heads, true = step
            h = cell(w["decoder"], jnp.where(heads, true, point), h)
            scores = jnp.einsum("nh,nsh->ns", h @ A.T + a, memory) / math.sqrt(H)
            context = jnp.einsum("ns,nsh->nh", jax.nn.softmax(scores), values)
            point = jnp.concatenate([context, h], -1) @ w["output"][0].T + w["output"][1]
            return (h, point), point

        _, outputs = jax.lax.scan(decode_step, (h, source[:, -1]), (forced.at[0].set(True), truth))
        return outputs.swapaxes(0, 1)

    def loss(w: Any, source: Any, target: Any, forced: Any) -> Any:
        return jnp.mean((forecast(w, source, target, forced) - target) ** 2)

    @jax.jit
    def epoch(w: Any, m: Any, v: Any, count: Any, key: Any) -> Any:
        order_key, coin_key = jax.random.split(key)
        order = jax.random.permutation(order_key, n)[: n // size * size].reshape(-1, size)
        coins = jax.random.bernoulli(coin_key, 0.5, (len(order), T))

        def step(carry: Any, one: Any) -> Any:
            w, m, v, count = carry
            places, forced = one
            value, g = jax.value_and_grad(loss)(w, source[places], target[places], forced)
            count = count + 1
            m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
            v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
            scale = rate * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            w = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + 1e-8), w, m, v)
            return (w, m, v, count), value

        carry, losses = jax.lax.scan(step, (w, m, v, count), (order, coins))
        return carry, losses.mean(), loss(carry[0], *valid, jnp.zeros(T, bool))

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, zeros, jnp.zeros(()))
    began = time.perf_counter()
    jax.block_until_ready(epoch(*state, jax.random.key(0)))
    compiled = time.perf_counter() - began
    began = time.perf_counter()
    for k in range(work.epochs):
        state, _, last = epoch(*state, jax.random.key(k))
    jax.block_until_ready(last)
    return compiled, time.perf_counter() - began


def bench_transformer(table: BenchTable) -> None:
    """Measure training steps of Transformers with 32 + 32 points against nn.Transformer.

    Both are trained with the same loop: batches in random order, loss, backward pass, fused Adam.
    """
    settings = Training(
        batch_size=64, learning_rate=1e-3, teacher_forcing=ConstantForcing(probability=1.0)
    )
    few = paths(4, 2)
    for width, layers, feedforward, count in ((64, 2, 128, 2048), (256, 3, 1024, 256)):
        data = paths(count, 1)
        config = Transformer(model_dim=width, heads=4, layers=layers, feedforward_dim=feedforward)
        run = TrainingRun(build_model(config, 2, 1), data, few, settings, 1)
        state, learner = build_group([RunProgress(run)])
        model = practised.PractisedTransformer(2, width, 4, layers, feedforward, 32)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

        def ours() -> None:
            plan = learner.plan_epoch(state)  # noqa: B023
            for _ in range(len(plan)):
                train_step(state, learner, plan)  # noqa: B023
            state.step = 0  # noqa: B023
            state.pending.clear()  # noqa: B023

        def theirs() -> None:
            for rows in torch.randperm(len(data)).split(64):  # noqa: B023
                optimizer.zero_grad()  # noqa: B023
                source, target = data.source[rows], data.target[rows]  # noqa: B023
                nn.functional.mse_loss(model(source, target), target).backward()  # noqa: B023
                optimizer.step()  # noqa: B023

        name = f"transformer: D {width}, {layers} + {layers} layers, steps of nn.Transformer's"
        table.pair(name, theirs, ours, "<= 1", times=False)


def bench_peers(table: BenchTable, chosen: list[Work]) -> None:
    """Measure a practised user's model in torch on the same work, and Lightning and JAX if they are
    installed."""
    for work in chosen:
        table.pair(f"{work.name}, practised torch / manual", lambda: practised_loop(work),  # noqa: B023
                   lambda: seqattn_loop(work), "")  # noqa: B023  # fmt: skip
        if importlib.util.find_spec("lightning") is None:
            print("lightning is not installed")
        else:
            table.pair(f"{work.name}, Lightning / manual", lambda: lightning_loop(work),  # noqa: B023
                       lambda: seqattn_loop(work), "")  # noqa: B023  # fmt: skip
        if importlib.util.find_spec("jax") is None:
            print("jax is not installed")
            continue
        taken = [(jax_loop(work), seconds(lambda: seqattn_loop(work)))  # noqa: B023
                 for _ in range(table.repeats)]  # fmt: skip
        after, ours = [run for (_, run), _ in taken], [t for _, t in taken]
        ratios = [a / b for a, b in zip(after, ours, strict=True)]
        table.row(f"{work.name}, JAX once compiled / manual", after, ours, ratios, "")
        compiling = statistics.median([compiling for (compiling, _), _ in taken])
        print(f"    (JAX compiled for {compiling:.3g} s first)")
