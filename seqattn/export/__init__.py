"""The export of a trained run as ONNX graphs, or as weights in the safetensors format.

An ONNX export has the following files:

    DIR/
      card.json              a description of the model and of the inputs and outputs of each graph
      encoder.onnx           source, source_lengths [, source_observed] -> point, memory and state
      step.onnx              point, memory and state -> next point, weights and next state
      free_running.onnx      the inputs of encoder.onnx -> forecast and all weights
      *.int8.onnx            the same graphs with int8 weights, if `int8` is True
      run.py                 a script that forecasts with NumPy and ONNX Runtime only
      example.npz            a test case for the script
      source_vocabulary.json, target_vocabulary.json
                             the symbols by number, if the sequences are made of symbols

With `export_format="safetensors"`, the files are `weights.safetensors`, `config.yaml`, `card.json`
and the vocabularies.
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
from seqattn.analysis.evaluation.load_run import load_splits, open_run, remove_paths
from seqattn.config import as_plain, to_yaml
from seqattn.errors import CheckpointError, DataError, UsageError, install_command
from seqattn.runs import find_run
from seqattn.runs.storage import atomic_write, read_regular_file, write_arrays

if TYPE_CHECKING:
    from onnx import ModelProto

    from seqattn.data import Sequences, Splits
    from seqattn.export.check import CheckResult
    from seqattn.export.kinds import ExportKind
    from seqattn.export.onnx import Graphs
    from seqattn.training import LoadedModel

# ONNX Runtime reads this variable when it is imported. Without the variable, it connects to a
# server of its makers, and writes files to the user's cache folder and to the temporary folder.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

ExportFormat = Literal["onnx", "safetensors"]
CARD, RUNNER, EXAMPLE = "card.json", "run.py", "example.npz"
LIBRARIES = ("onnx", "onnxscript", "onnxruntime")
MADE_BY = "seqattn export"
GRAPHS = ("encoder", "step", "free_running")
EXPORT_FILES = {CARD, RUNNER, EXAMPLE, "weights.safetensors", "config.yaml", "__pycache__",
       "source_vocabulary.json", "target_vocabulary.json",
       *(f"{name}{kind}.onnx" for name in GRAPHS for kind in ("", ".int8"))}  # fmt: skip
"""The names of all files and folders that the folder of an export may contain."""


@dataclass(frozen=True)
class ExportResult:
    """The files of an export and the results of its checks.

    Attributes:
        path: the folder that contains the files.
        files: the size of each file in bytes, by file name.
        rows: the differences between the graphs and the model; empty if there was no check.
        losses: the test errors of the graphs, under the keys "float32" and "int8"; empty if there
            are no int8 graphs, if the data cannot be read, or if the number of free-running steps
            is not the target length of the test sequences.
        loss_name: the name of these errors.
    """

    path: Path
    files: dict[str, int]
    rows: list[CheckResult] = field(default_factory=list)
    losses: dict[str, float] = field(default_factory=dict)
    loss_name: str = "loss"


def export(
    run: Path,
    output: Path,
    *,
    export_format: ExportFormat = "onnx",
    steps: int | None = None,
    check: bool = True,
    int8: bool = False,
    overwrite: bool = False,
    log: Callable[[str], None] = lambda line: None,
) -> ExportResult:
    """Export a trained run. The files are written to a temporary folder, which becomes the output
    folder when the export is complete.

    Args:
        run: a run folder, or a checkpoint file in a run folder.
        output: the folder to write, which must be empty if it exists. If `overwrite` is True, the
            folder may also contain an earlier export.
        export_format: "onnx" or "safetensors".
        steps: the number of free-running steps; None for the target length of the training data.
        check: whether to compare the graphs with the model.
        int8: whether to write graphs with int8 weights as well.
        overwrite: whether to replace an earlier export in the folder.
        log: a function that receives progress messages.

    Raises:
        UsageError: if a library is missing, if the model cannot forecast `steps` steps, if the
            output folder must not be replaced, or if the model cannot be exported.
        CheckpointError: if the run cannot be read, or if the graphs differ from the model.
    """
    from seqattn.export.kinds import export_kind

    output = Path(os.path.abspath(output.resolve() if output.is_symlink() else output))  # noqa: PTH100
    _check_output(output, overwrite)
    if export_format == "onnx":
        _require_libraries()
    _, trained = open_run(run)
    kind = export_kind(trained)
    _, checkpoint = find_run(run)
    T = steps or trained.spec.target_length
    max_length = trained.model.max_length
    if max_length is not None and max_length < T:
        raise UsageError(
            f"--steps {T}: this Transformer has learned {max_length} positions (model.longest), so"
            " no forecast can be longer."
        )
    if trained.model.skip is not None:
        trained.model.skip.check_steps(T)
    card = _build_card(trained, checkpoint) | kind.describe()
    with _replace_folder(output) as folder:
        for name, vocabulary in kind.vocabularies().items():
            _write_json(folder / name, vocabulary)
        if export_format == "safetensors":
            from seqattn.runs.checksummed import write_plain
            from seqattn.training.checkpoints import as_arrays

            write_plain(folder / "weights.safetensors", as_arrays(trained.model.state_dict()))
            atomic_write(folder / "config.yaml", to_yaml(remove_paths(trained.config)).encode())
            card["tensors"] = {
                name: list(tensor.shape) for name, tensor in trained.model.state_dict().items()
            }
            _write_json(folder / CARD, card)
            return ExportResult(output, _sizes(folder))
        return _write_onnx(folder, output, kind, T, card, check=check, int8=int8, log=log)


def _write_onnx(
    folder: Path,
    output: Path,
    kind: ExportKind,
    steps: int,
    card: dict[str, Any],
    *,
    check: bool,
    int8: bool,
    log: Callable[[str], None],
) -> ExportResult:
    from seqattn.export.check import build_example
    from seqattn.export.onnx import trace_graphs

    trained = kind.trained
    data: Splits | None = None
    try:
        data = load_splits(trained)
    except DataError as error:
        log(f"The run's data cannot be read, so the check uses random sources. {error}")
    test = None if data is None or not len(data.test) else data.test
    sources = [trained.spec.source_length] if test is None else test.source_lengths
    trained.spec.note_lengths(sources, steps, log)
    log("Tracing")
    graphs = trace_graphs(trained, steps)
    card |= {"steps": steps, "graphs": {}, "memory": graphs.memory, "state": graphs.state}
    for name, graph in graphs.by_name().items():
        atomic_write(folder / f"{name}.onnx", graph.SerializeToString(deterministic=True))
        card["graphs"][name] = {"file": f"{name}.onnx", **_describe_graph(graph)}
    rows = _check_against_model(graphs, trained, steps, test, card) if check else []
    write_arrays(folder / EXAMPLE, build_example(trained, steps, test))
    losses = dict[str, float]()
    if int8:
        losses = _write_int8(folder, graphs, kind, steps, data)
        card["int8"] = {
            "files": {name: f"{name}.int8.onnx" for name in graphs.by_name()},
            f"test_{kind.error_name.replace(' ', '_')}": losses or None,
        }
    runner = resources.files("seqattn.export") / kind.runner
    atomic_write(folder / RUNNER, runner.read_bytes())
    _write_json(folder / CARD, card)
    return ExportResult(output, _sizes(folder), rows, losses, kind.error_name)


def _check_against_model(
    graphs: Graphs, trained: LoadedModel, steps: int, test: Sequences | None, card: dict[str, Any]
) -> list[CheckResult]:
    import onnxruntime

    from seqattn.export.check import MAX_DIFFERENCE, check_graphs

    rows = check_graphs(graphs, trained, steps, test, trained.model.max_length)
    for row in rows:
        if not row.is_within_tolerance:
            raise CheckpointError(
                f"The graphs differ from the model: {row.graph} on {row.sources} by"
                f" {row.largest:.1e}. The tolerance is {MAX_DIFFERENCE:.0e}, or ten times the"
                f" difference between the model in float32 and in float64 ({row.noise:.1e})."
                " Nothing was written; --no-check writes the graphs without this check."
            )
    card["check"] = {
        "onnxruntime": onnxruntime.__version__,
        "largest_difference": max(row.largest for row in rows),
    }
    return rows


def _write_int8(
    folder: Path, graphs: Graphs, kind: ExportKind, steps: int, data: Splits | None
) -> dict[str, float]:
    """Write graphs with int8 weights, and return the test errors of the float32 and int8 graphs.

    The result is empty if the data cannot be read, or if `steps` is not the target length of the
    test sequences.
    """
    from seqattn.export.check import forecasts, sequences_per_batch
    from seqattn.export.quantization import quantize_int8

    quantized = {name: quantize_int8(graph) for name, graph in graphs.by_name().items()}
    for name, graph in quantized.items():
        atomic_write(folder / f"{name}.int8.onnx", graph.SerializeToString(deterministic=True))
    if data is None or steps != data.test.target_steps:
        return {}
    batch_size = sequences_per_batch(kind.trained, data.test.source_steps, steps)
    graph_of = {"float32": graphs.free_running, "int8": quantized["free_running"]}
    errors = {
        weights: kind.error(forecasts(graph, data.test, batch_size), data.test)
        for weights, graph in graph_of.items()
    }
    return {weights: error for weights, error in errors.items() if error is not None}


# --- the card -------------------------------------------------------------------------------------


def _build_card(trained: LoadedModel, checkpoint: Path) -> dict[str, Any]:
    spec = trained.spec
    return {
        "made_by": MADE_BY,
        "version": __version__,
        "checkpoint_sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
        "epoch": trained.epoch,
        "model": as_plain(trained.config)["model"],
        "features": list(spec.source_features),
        "said": list(spec.target_features),
        "source_length": spec.source_length,
        "target_length": spec.target_length,
    }


def _describe_graph(graph: ModelProto) -> dict[str, Any]:
    from onnx import TensorProto

    def describe(values: Any) -> list[dict[str, Any]]:
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
        "inputs": describe(graph.graph.input),
        "outputs": describe(graph.graph.output),
    }


def _write_json(path: Path, content: dict[str, Any]) -> None:
    atomic_write(path, (json.dumps(content, indent=2) + "\n").encode())


# --- the folder -----------------------------------------------------------------------------------


def _check_output(output: Path, overwrite: bool) -> None:
    if not output.exists():
        return
    if not output.is_dir():
        raise UsageError(f"--output {output}: exists and is not a folder; name another one.")
    if not any(output.iterdir()):
        return
    with contextlib.suppress(OSError, ValueError, AttributeError, RecursionError):
        if json.loads(read_regular_file(output / CARD)).get("made_by") == MADE_BY:
            other = sorted(path.name for path in output.iterdir() if path.name not in EXPORT_FILES)
            if other:
                raise UsageError(
                    f"--output {output}: contains {other[0]}, which does not belong to an export,"
                    " so nothing was changed. Move that file, or name another folder."
                )
            if overwrite:
                return
            raise UsageError(f"--output {output}: contains an export; --overwrite replaces it.")
    raise UsageError(
        f"--output {output}: is not empty and not a seqattn export; name another folder."
    )


@contextlib.contextmanager
def _replace_folder(output: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces `output` if the `with` block ends without an error."""
    output = Path(os.path.realpath(output))  # replaces the target of a symbolic link
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as temporary:
        new = Path(temporary) / "new"
        new.mkdir()
        yield new
        if output.exists():
            output.rename(Path(temporary) / "old")
        new.rename(output)


def _sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir())}


def _require_libraries() -> None:
    try:
        for library in LIBRARIES:
            importlib.import_module(library)
    except ImportError:
        raise UsageError(missing_libraries()) from None


def missing_libraries() -> str:
    """Return the message for missing libraries, without a full stop."""
    return (
        "seqattn export --format onnx needs onnx, onnxscript and onnxruntime:"
        f" {install_command('export')}"
    )


__all__ = [
    "CARD", "EXAMPLE", "RUNNER", "ExportFormat", "ExportResult", "export", "missing_libraries",
]  # fmt: skip
