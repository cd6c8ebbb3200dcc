"""A trained run for other programs: ONNX graphs with a card and a runner, or plain safetensors.

    DIR/
      card.json              what the model is, and what goes into and comes out of each graph
      encoder.onnx           source, source_lengths -> point, memory and state
      step.onnx              point, memory and state -> next point, weights and next state
      free_running.onnx      source, source_lengths -> forecast and all weights
      *.int8.onnx            the same with weights of one byte, if asked for
      run.py, example.npz    a runner that needs numpy and onnxruntime only, and what it should say

or, with `safetensors`, weights.safetensors, config.yaml and card.json.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from seqattn import __version__
from seqattn.analysis.evaluation.load_run import data_of, open_run, without_paths
from seqattn.config import as_plain, to_yaml
from seqattn.errors import CheckpointError, DataError, UsageError
from seqattn.runs import find_run
from seqattn.runs.storage import atomic_write, write_arrays

if TYPE_CHECKING:
    from onnx import ModelProto

    from seqattn.data import Sequences, Splits
    from seqattn.export.check import Row
    from seqattn.export.onnx import Graphs
    from seqattn.training import LoadedModel

Form = Literal["onnx", "safetensors"]
UNITS = "those of the data; scaling is part of the graphs"
OF_INSTANCES = (
    ", and so are mean and standard deviation of each source (data.normalize: instance), taken over"
    " all its points: graphs do not know which cells were filled"
)
CARD, RUNNER, EXAMPLE = "card.json", "run.py", "example.npz"
LIBRARIES = ("onnx", "onnxscript", "onnxruntime")
INSTALL = (
    "seqattn export --format onnx needs onnx, onnxscript and onnxruntime:"
    ' pip install "seqattn[export]"'
)
OURS = "seqattn export"
GRAPHS = ("encoder", "step", "free_running")
OWN = {CARD, RUNNER, EXAMPLE, "weights.safetensors", "config.yaml", "__pycache__",
       *(f"{name}{kind}.onnx" for name in GRAPHS for kind in ("", ".int8"))}  # fmt: skip
"""Everything that an export writes."""


@dataclass(frozen=True)
class Exported:
    """What was written.

    Attributes:
        path: the folder.
        files: name -> bytes.
        rows: of the check; empty where none was made.
        losses: test loss by the graphs, "float32" and "int8"; empty where nobody asked.
    """

    path: Path
    files: dict[str, int]
    rows: list[Row] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)


def export(
    run: Path,
    output: Path,
    *,
    form: Form = "onnx",
    steps: int | None = None,
    check: bool = True,
    int8: bool = False,
    overwrite: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Exported:
    """Write a trained run for other programs. All of it appears at once, or nothing.

    Args:
        run: a run folder, or a checkpoint file in one.
        output: the folder; it must be empty, missing, or (with `overwrite`) an export.
        steps: of free running; as trained without.
        check: hold the graphs against the model.
        int8: write graphs with weights of one byte, too.

    Raises:
        UsageError: a library is missing, more steps than the model can make, a folder with
            something else in it, or a model that cannot be exported.
        CheckpointError: the run cannot be read, or the graphs say something else than the model.
    """
    output = Path(os.path.abspath(output.resolve() if output.is_symlink() else output))  # noqa: PTH100
    _refuse_folder(output, overwrite)
    if form == "onnx":
        _ask_for_libraries()
    _, trained = open_run(run)
    _, checkpoint = find_run(run)
    T = steps or trained.spec.target_length
    longest = trained.model.longest
    if longest is not None and longest < T:
        raise UsageError(
            f"--steps {T}: this Transformer has learned {longest} positions (model.longest), so no"
            " forecast can be longer."
        )
    if trained.model.skip is not None:
        trained.model.skip.check_steps(T)
    card = _card(trained, checkpoint)
    with _all_at_once(output) as folder:
        if form == "safetensors":
            from seqattn.training.checksummed import write_plain

            write_plain(folder / "weights.safetensors", trained.model.state_dict())
            atomic_write(folder / "config.yaml", to_yaml(without_paths(trained.config)).encode())
            card["tensors"] = {
                name: list(tensor.shape) for name, tensor in trained.model.state_dict().items()
            }
            _write_json(folder / CARD, card)
            return Exported(output, _sizes(folder))
        return _write_onnx(folder, output, trained, T, card, check=check, int8=int8, say=say)


def _write_onnx(
    folder: Path,
    output: Path,
    trained: LoadedModel,
    steps: int,
    card: dict[str, Any],
    *,
    check: bool,
    int8: bool,
    say: Callable[[str], None],
) -> Exported:
    from seqattn.export.check import example
    from seqattn.export.onnx import graphs_of

    data: Splits | None = None
    try:
        data = data_of(trained)
    except DataError as error:
        say(f"Its own sequences cannot be had, so random ones must do. {error}")
    say("Tracing")
    graphs = graphs_of(trained, steps)
    card |= {"steps": steps, "graphs": {}, "memory": graphs.memory, "state": graphs.state}
    for name, graph in graphs.by_name().items():
        atomic_write(folder / f"{name}.onnx", graph.SerializeToString(deterministic=True))
        card["graphs"][name] = {"file": f"{name}.onnx", **_described(graph)}
    test = None if data is None or not len(data.test) else data.test
    rows = _checked(graphs, trained, steps, test, card) if check else []
    write_arrays(folder / EXAMPLE, example(trained, steps, test))
    losses = dict[str, float]()
    if int8:
        losses = _quantized(folder, graphs, trained, steps, data)
        card["int8"] = {
            "files": {name: f"{name}.int8.onnx" for name in graphs.by_name()},
            "test_loss": losses or None,
        }
    runner = resources.files("seqattn.export") / "runner.py"
    atomic_write(folder / RUNNER, runner.read_bytes())
    _write_json(folder / CARD, card)
    return Exported(output, _sizes(folder), rows, losses)


def _checked(
    graphs: Graphs, trained: LoadedModel, steps: int, test: Sequences | None, card: dict[str, Any]
) -> list[Row]:
    import onnxruntime

    from seqattn.export.check import MOST
    from seqattn.export.check import check as held

    rows = held(graphs, trained, steps, test, trained.model.longest)
    for row in rows:
        if not row.is_right:
            raise CheckpointError(
                f"The graphs say something else than the model: {row.graph} on {row.sources} is"
                f" {row.largest:.1e} away; right is {MOST:.0e} at most, or ten times what the model"
                f" in float32 is from itself in float64 ({row.noise:.1e}). Nothing was written;"
                " --no-check writes it all the same."
            )
    card["check"] = {
        "onnxruntime": onnxruntime.__version__,
        "largest_difference": max(row.largest for row in rows),
    }
    return rows


def _quantized(
    folder: Path, graphs: Graphs, trained: LoadedModel, steps: int, data: Splits | None
) -> dict[str, float]:
    """Write graphs with weights of one byte; the test loss of both, where the truth is known."""
    from seqattn.data.baselines import forecast_mse
    from seqattn.export.check import forecasts, sequences_together
    from seqattn.export.quantization import quantized

    small = {name: quantized(graph) for name, graph in graphs.by_name().items()}
    for name, graph in small.items():
        atomic_write(folder / f"{name}.int8.onnx", graph.SerializeToString(deterministic=True))
    if data is None or steps != data.test.target_steps:
        return {}
    scale = trained.spec.scaling.target.scale
    together = sequences_together(trained, data.test.source_steps, steps)
    return {
        kind: forecast_mse(forecasts(graph, data.test, together), data.test, scale)
        for kind, graph in (
            ("float32", graphs.free_running), ("int8", small["free_running"]),
        )
    }  # fmt: skip


# --- the card -------------------------------------------------------------------------------------


def _card(trained: LoadedModel, checkpoint: Path) -> dict[str, Any]:
    spec = trained.spec
    return {
        "made_by": OURS,
        "version": __version__,
        "checkpoint_sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
        "epoch": trained.epoch,
        "model": as_plain(trained.config)["model"],
        "features": list(spec.source_features),
        "said": list(spec.target_features),
        "source_length": spec.source_length,
        "target_length": spec.target_length,
        "units": UNITS + (OF_INSTANCES if spec.scaling.instance else ""),
        "feature_units": dict(spec.units),
        "scaling": spec.scaling.as_plain(),
    }


def _described(graph: ModelProto) -> dict[str, Any]:
    from onnx import TensorProto

    def side(values: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": value.name,
                "type": TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower(),
                "shape": [size.dim_param or size.dim_value
                          for size in value.type.tensor_type.shape.dim],
            }
            for value in values
        ]  # fmt: skip

    return {
        "opset": graph.opset_import[0].version,
        "inputs": side(graph.graph.input),
        "outputs": side(graph.graph.output),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    atomic_write(path, (json.dumps(content, indent=2) + "\n").encode())


# --- the folder -----------------------------------------------------------------------------------


def _refuse_folder(output: Path, overwrite: bool) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"--output {output}: is there, and no folder.")
    if not any(output.iterdir()):
        return
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        if json.loads((output / CARD).read_bytes()).get("made_by") == OURS:
            strange = sorted(path.name for path in output.iterdir() if path.name not in OWN)
            if strange:
                raise UsageError(
                    f"--output {output}: holds {strange[0]}, too, which is not of an export, so"
                    " nothing in it is touched. Move that, or name another folder."
                )
            if overwrite:
                return
            raise UsageError(f"--output {output}: holds an export; --overwrite replaces it.")
    raise UsageError(
        f"--output {output}: is not empty, and no export of ours; name another folder."
    )


@contextlib.contextmanager
def _all_at_once(output: Path) -> Iterator[Path]:
    """A folder that takes another's place when all in it has been written."""
    output = Path(os.path.realpath(output))  # a link stays, and the folder at its end is replaced
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as home:
        new = Path(home) / "new"
        new.mkdir()
        yield new
        if output.exists():
            output.rename(Path(home) / "old")
        new.rename(output)


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def _ask_for_libraries() -> None:
    try:
        for library in LIBRARIES:
            importlib.import_module(library)
    except ImportError:
        raise UsageError(INSTALL) from None


__all__ = ["CARD", "EXAMPLE", "INSTALL", "RUNNER", "Exported", "Form", "export"]
