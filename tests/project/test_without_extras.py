"""Only the dependencies of the wheel: what needs an extra names the extra, and the rest works.

`make package` builds the wheel; here the packages of the extras are hidden in this process.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from seqattn.errors import install_command
from tests.conftest import ROOT, SMALL, Ended

Command = Callable[..., Ended]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {
    "data",
    "report",
    "tensorboard",
    "mlflow",
    "wandb",
    "tune",
    "export",
    "ray",
    "text",
    "xarray",
}
MODULES = {
    re.split(r"[>=\[]", each)[0].lower() for name in EXTRAS
    for each in PROJECT["optional-dependencies"][name]
}  # fmt: skip
SETS = [word for each in (*SMALL, "training.epochs=1") for word in ("--set", each)]


@pytest.fixture(autouse=True)
def no_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.setitem(sys.modules, module, None)


def test_every_extra_that_a_user_installs_is_hidden() -> None:
    assert {"jinja2", "optuna", "ray", "pyarrow", "onnx", "tensorboard"} <= MODULES
    every = PROJECT["optional-dependencies"]["all"][0]
    assert set(re.findall(r"\w+", every.partition("[")[2])) == EXTRAS


def test_what_needs_an_extra_names_it(attention_run: Path, seqattn: Command) -> None:
    Path("x.arrow").write_bytes(b"ARROW1\0\0")
    for words, extra in (
        (["report", attention_run], "report"),
        (["report", attention_run, attention_run, "--output", "two.html"], "report"),
        (["tune", "squares", *SETS, "--search", "training.learning_rate=0.01,0.02"], "tune"),
        (["export", attention_run, "--output", "graphs"], "export"),
        (["compare", "compare/scores", *SETS, "--seeds", "2", "--engine", "ray"], "ray"),
        (["train", "squares", *SETS, "--set", "logging.tensorboard=true"], "tensorboard"),
        (["train", "squares", *SETS, "--set", "logging.mlflow=true"], "mlflow"),
        (["train", "squares", *SETS, "--set", "logging.wandb=true"], "wandb"),
        (["data", "check", "x.arrow"], "data"),
        (["data", "sample", "squares", *SETS, "--output", "y.arrow"], "data"),
        (["predict", attention_run, "--input", "x.arrow"], "data"),
        (["predict", attention_run, "--output", "y.arrow"], "data"),
    ):
        done = seqattn(*words)
        assert done.code == 2, (words, done.out, done.err)
        assert install_command(extra) in done.err.splitlines()[-1], (words, done.err)
    assert [path.name for path in Path().iterdir()] == ["x.arrow"]


def test_everything_else_works_without_extras(seqattn: Command) -> None:
    assert seqattn("init").code == 0
    run = "outputs/my"
    for words in (
        ["train", "my.yaml", *SETS],
        ["evaluate", run],
        ["predict", run, "--example", "0", "--output", "next.csv"],
        ["plot-attention", run, "--terminal"],
        ["explain", run],
        ["doctor", run],
        ["inspect", run],
        ["export", run, "--output", "weights", "--format", "safetensors"],
        ["config", "list"],
        ["data", "sample", "my", "--output", "y.parquet"],
        ["data", "check", "y.parquet"],
    ):
        done = seqattn(*words)
        assert done.code == 0, (words, done.err)


@pytest.mark.parametrize(
    ("installed", "source"),
    [
        ("folder", '"{folder}'), ("editable folder", '--editable "{folder}'),
        ("wheel", '"{folder}/seqattn-1.whl'), ("index", '"seqattn'),
        ("deleted folder", '"seqattn'), ("repository", '"seqattn'), ("not installed", '"seqattn'),
    ],
)  # fmt: skip
def test_the_command_installs_from_where_seqattn_was_installed(
    installed: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my clone"
    folder.mkdir()
    (folder / "seqattn-1.whl").touch()
    urls = {
        "folder": folder.as_uri(), "editable folder": folder.as_uri(), "wheel": (folder / "seqattn-1.whl").as_uri(),
        "deleted folder": (tmp_path / "deleted").as_uri(),
        "repository": "https://example.org/seqattn.git",
    }  # fmt: skip

    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            if installed not in urls:
                return None
            is_folder = {"dir_info": {"editable": installed == "editable folder"}}
            return json.dumps(
                {"url": urls[installed]} | (is_folder if "folder" in installed else {})
            )

    def distribution(name: str) -> Distribution:
        if installed == "not installed":
            raise metadata.PackageNotFoundError(name)
        return Distribution()

    monkeypatch.setattr(metadata, "distribution", distribution)
    expected = source.format(folder=folder)
    assert install_command("report") == f'pip install {expected}[report]"'
