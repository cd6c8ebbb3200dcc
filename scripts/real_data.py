"""Measure seqattn, neuralforecast and statsforecast on the same windows of six real data sets.

    python scripts/real_data.py

The script writes the data as CSV to outputs/real/data, trains configs/real/*.yaml with seeds 1 to
5, and measures the other tools if they are installed. It writes the results to
outputs/real/results.json and outputs/real/results.md, and keeps the earlier results of data sets
and tools that are not selected. It needs the packages that contain the data (statsmodels,
statsforecast, pmdarima and aeon), and neuralforecast for the neural peers. `--choose` prints the
validation errors from which the values of the configs were chosen.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import real_peers  # noqa: E402
import real_series  # noqa: E402
from real_series import DATA_SETS, PARTS, WindowArrays  # noqa: E402

import seqattn  # noqa: E402
from seqattn import experiments  # noqa: E402
from seqattn.config import resolve  # noqa: E402

HOME = ROOT / "outputs/real"
PACKAGES = ("seqattn", "torch", "neuralforecast", "statsforecast", "statsmodels", "pmdarima",
            "aeon", "numpy")  # fmt: skip
LEVELS = {
    "global": ["data.relative=false", "data.normalize=global"],
    "relative": ["data.relative=true", "data.normalize=global"],
    "instance": ["data.relative=false", "data.normalize=instance"],
}
SKIPS = {
    "frozen": "linear, skip_map: frozen", "finetuned": "linear, skip_map: finetuned",
    "learned": "linear, skip_map: learned", "none": "none",
}  # fmt: skip
NETWORKS = {
    "GRU": ["model={kind: recurrent, hidden_dim: H, attention: {score: scaled_dot}, skip: SKIP}"],
    "Transformer": [  # trains on all steps at once, which needs the true points as inputs
        "model={kind: transformer, skip: SKIP}",
        "training.teacher_forcing.probability=1",
    ],
}
AXES: tuple[tuple[str, dict[str, list[str]]], ...] = (
    ("form", {
        f"{network}, {level}, {skip}": [*(each.replace("SKIP", words) for each in sets), *more]
        for network, sets in NETWORKS.items()
        for level, more in LEVELS.items()
        for skip, words in SKIPS.items()
        if (network, skip) != ("Transformer", "none")
    }),
    ("learning_rate", {
        f"{rate}": [f"training.learning_rate={rate}"] for rate in (0.003, 0.01, 0.001, 0.0003)
    }),
    ("weight_decay", {
        f"{decay}": [f"training.weight_decay={decay}"] for decay in (0.0, 0.1, 1.0)
    }),
)  # fmt: skip


def paths_of(name: str) -> dict[str, Path]:
    return {part: HOME / f"data/{name}-{part}.csv" for part in PARTS}


def written(name: str) -> tuple[real_series.SeriesParts, dict[str, WindowArrays]]:
    """Read a data set, write its parts as CSV, and cut its windows."""
    data = DATA_SETS[name]
    try:
        parts = real_series.read_parts(data)
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{name} ships with {data.package}, and {error.name} is not installed: pip install"
            f" {data.package}, or leave {name} out with --only"
        ) from None
    for part, path in paths_of(name).items():
        real_series.write_csv(path, parts.series[part], data.features)
    return parts, {
        part: real_series.windows_of(parts.series[part], data.source, data.target) for part in PARTS
    }


def train_data_set(
    name: str, home: Path, seeds: int, sets: list[str]
) -> list[seqattn.experiments.api.Run]:
    """Train several seeds of a config together."""
    paths = paths_of(name)
    config = resolve(
        ROOT / f"configs/real/{name}.yaml",
        ["seed=1", *sets, *(
            f"data.{key}={paths[part]}"
            for key, part in zip(("path", "validation_path", "test_path"), PARTS, strict=True)
        )],
    ).config  # fmt: skip
    jobs = experiments.train_many(experiments.seeds_of(config, home, seeds), threads=1)
    if any(job.error is not None for job in jobs):
        raise SystemExit(f"{name}: a seed diverged; see {home}")
    return [seqattn.load(job.folder.path) for job in jobs]


def pooled(summary: dict[str, Any]) -> float:
    """Return the RMSE over all features from summary.json.

    The mean over features is exact, because all features have the same number of cells.
    """
    return float(np.sqrt(np.mean(np.square(summary["rmse"]["this model"]))))


def errors_of(runs: list[seqattn.experiments.api.Run], windows: WindowArrays) -> list[float]:
    return [real_series.rmse(run.predict(windows.source), windows.target) for run in runs]


def measure_data_set(
    name: str, windows: dict[str, WindowArrays], seeds: int, sets: list[str]
) -> dict[str, Any]:
    """Measure the test errors of seqattn over seeds, on the same windows as the other tools."""
    with tempfile.TemporaryDirectory() as folder:
        runs = train_data_set(name, Path(folder) / "many", seeds, sets)
        errors = errors_of(runs, windows["test"])
        on_validation = errors_of(runs, windows["validation"])
        summaries = [run.summary for run in runs]
    for error, summary in zip(errors, summaries, strict=True):
        if not np.isclose(error, pooled(summary), rtol=1e-4):
            raise SystemExit(
                f"{name}: the error is {error} on these windows, but {pooled(summary)} in"
                " summary.json, so seqattn did not score the same windows"
            )
    first = summaries[0]
    linear = first["rmse"].get("linear least squares (fitted)")
    return {
        "rmse": statistics.median(errors), "min": min(errors), "max": max(errors),
        "validation": statistics.median(on_validation), "set": sets,
        "mase": statistics.median(
            each["metrics"]["errors"]["this model"]["mase_mean"] for each in summaries
        ),
        "least_squares": None if linear is None
        else float(np.sqrt(np.mean(np.square(linear)))),
        "parameters": first["parameters"], "windows": len(windows["test"].source),
        "seconds": round(sum(each["seconds"] for each in summaries)),
    }  # fmt: skip


def choose(name: str, windows: WindowArrays, arguments: argparse.Namespace) -> None:
    """Choose the values of a config, one axis after the other, and print all validation errors.

    The errors are in the units of the data.
    """
    best: list[str] = arguments.set
    seeds, width = arguments.seeds, str(arguments.hidden_dim)
    for axis, values in AXES:
        if axis not in arguments.axes.split(","):
            continue
        errors = dict[str, float]()
        for label, replaced in values.items():
            if axis == "form" and arguments.forms not in label:
                continue
            sets = [each.replace("hidden_dim: H", f"hidden_dim: {width}") for each in replaced]
            with tempfile.TemporaryDirectory() as folder:
                runs = train_data_set(name, Path(folder) / "many", seeds, [*best, *sets])
                errors[label] = statistics.median(errors_of(runs, windows))
            print(f"{name}: {axis} {label}: {errors[label]:.5g}", flush=True)
        first = min(errors, key=lambda label: errors[label])
        chosen = [each.replace("hidden_dim: H", f"hidden_dim: {width}") for each in values[first]]
        best = [*best, *chosen]
        print(f"{name}: {axis}: chosen {first}", flush=True)


def ridge(name: str, train: WindowArrays, validation: WindowArrays) -> None:
    """Print the lowest validation error of ridge regression for each of `LEVELS`.

    These errors are a quick guide to the best level.
    """
    seen = ~np.isnan(train.target[:, :, 0]).any(axis=1)
    for level in LEVELS:

        def units(part: WindowArrays, level: str = level) -> tuple[real_series.Floats, ...]:
            x, everything = part.source[:, :, 0], train.source
            match level:
                case "global":
                    return np.full((len(x), 1), everything.mean()), np.full(
                        (len(x), 1), everything.std()
                    )
                case "relative":
                    return x[:, -1:], np.full((len(x), 1), everything.std())
            return x.mean(axis=1, keepdims=True), x.std(axis=1, keepdims=True)

        shift, scale = units(train)
        X, Y = ((each[:, :, 0] - shift) / scale for each in (train.source, train.target))
        X, Y = np.c_[X, np.ones(len(X))][seen], Y[seen]
        shift, scale = units(validation)
        V = np.c_[(validation.source[:, :, 0] - shift) / scale, np.ones(len(shift))]
        errors = []
        for penalty in (1e-3, 0.1, 1.0, 10.0, 100.0):
            W = np.linalg.solve(X.T @ X + penalty * np.eye(X.shape[1]), X.T @ Y)
            forecast = (V @ W * scale + shift)[:, :, None]
            errors.append(real_series.rmse(forecast, validation.target))
        print(f"{name}: ridge {level}: {min(errors):.5g}", flush=True)


def versions() -> dict[str, str]:
    found = dict[str, str]()
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def results_table(results: dict[str, Any]) -> str:
    """Return the test errors as a table with a row for each data set and a column for each tool.

    A cell is empty if there is no result.
    """
    names = [*real_peers.NEURAL, *real_peers.STATISTICAL]
    lines = [
        "| data set, unit | seqattn | MASE | least squares | " + " | ".join(names) + " |",
        "| --- |" + " ---: |" * (len(names) + 3),
    ]
    for name in [name for name in DATA_SETS if "seqattn" in results.get(name, {})]:
        row = results[name]
        ours, peers = row["seqattn"], {**row.get("neural", {}), **row.get("statistical", {})}
        errors = [ours["rmse"], ours["least_squares"], *(peer["rmse"] for peer in peers.values())]
        lowest = min(error for error in errors if error is not None)

        def cell(value: float | None, lowest: float = lowest) -> str:
            if value is None:
                return ""
            shown = f"{value:.0f}" if value >= 100 else f"{value:.3g}"
            return f"**{shown}**" if value == lowest else shown

        spread = f" ({cell(ours['min'], 0)} to {cell(ours['max'], 0)})"
        cells = [
            f"{name}, {DATA_SETS[name].unit}", cell(ours["rmse"]) + spread, f"{ours['mase']:.2f}",
            cell(ours["least_squares"]), *(cell(peers.get(each, {}).get("rmse")) for each in names),
        ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def notes(results: dict[str, Any]) -> list[str]:
    """Return lines about the distance to the best neural peer, and about missing tools."""
    lines = list[str]()
    for name, row in results.items():
        if row.get("neural") and "seqattn" in row:
            best = min(row["neural"], key=lambda each: row["neural"][each]["rmse"])
            more = row["seqattn"]["rmse"] / row["neural"][best]["rmse"] - 1
            lines.append(f"{name}: {more:+.1%} against the best neural peer ({best})")
    lines += [
        f"{package} is not installed, so its columns are empty."
        for package in ("neuralforecast", "statsforecast")
        if not installed(package)
    ]
    return lines


def add(name: str, arguments: argparse.Namespace, row: dict[str, Any]) -> None:
    """Measure the selected tools on one data set, and put the results into `row`.

    The results of other tools in `row` are kept.
    """
    data, tools, seeds = DATA_SETS[name], arguments.tools.split(","), arguments.seeds
    print(f"{name}:", flush=True)
    parts, windows = written(name)
    if "seqattn" in tools:
        row["seqattn"] = measure_data_set(name, windows, seeds, arguments.set)
        print(f"  seqattn: {row['seqattn']}", flush=True)
    if "statistical" in tools and installed("statsforecast"):
        row["statistical"] = real_peers.statistical(data, parts, windows["test"])
    if "neural" in tools and installed("neuralforecast"):
        models = arguments.models.split(",")
        row["neural"] = row.get("neural", {}) | real_peers.neural(
            data, parts, windows, seeds, models
        )
    row["versions"] = versions()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(DATA_SETS), help="data sets, with commas")
    parser.add_argument("--tools", default="seqattn,statistical,neural", help="with commas")
    parser.add_argument("--models", default=",".join(real_peers.NEURAL), help="neural peers")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--set", action="append", default=[], help="override in all configs")
    parser.add_argument("--choose", action="store_true", help="choose the values of the configs")
    parser.add_argument("--axes", default=",".join(axis for axis, _ in AXES), help="for --choose")
    parser.add_argument("--forms", default="", help="for --choose: text in the names of forms")
    parser.add_argument("--hidden-dim", type=int, default=32, help="for --choose: the GRU's width")
    parser.add_argument("--ridge", action="store_true", help="errors of ridge regression by level")
    parser.add_argument("--into", type=Path, default=HOME / "results.json")
    arguments = parser.parse_args()
    names, path = arguments.only.split(","), arguments.into
    for given, known in ((names, DATA_SETS), (arguments.models.split(","), real_peers.NEURAL)):
        if unknown := [each for each in given if each not in known]:
            parser.error(f"{unknown[0]!r} is none of {', '.join(known)}")
    results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        if arguments.ridge:
            windows = written(name)[1]
            ridge(name, windows["train"], windows["validation"])
            continue
        if arguments.choose:
            choose(name, written(name)[1]["validation"], arguments)
            continue
        add(name, arguments, results.setdefault(name, {}))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(results, indent=2) + "\n")
    if not (arguments.choose or arguments.ridge):
        text = "\n".join([results_table(results), *notes(results)]) + "\n"
        path.with_suffix(".md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
