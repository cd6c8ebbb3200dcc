"""Loading of plugins, and their errors."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from seqattn.config import all_keys, json_schema, load_plugin, resolve
from seqattn.errors import ConfigError, PluginError
from seqattn.models import build_model
from tests.conftest import Ended
from tests.plugins.sources import BILINEAR_TANH, MEAN_MODEL, PARTS, TORCH_LINEAR

Write = Callable[..., Path]
SCORE = ["model.attention={score: bilinear_tanh, width: 4}"]


def error_of(*plugin: Path | str) -> str:
    with pytest.raises(PluginError) as caught:
        load_plugin(*plugin)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_loaded_plugin_extends_the_schema(write: Write) -> None:
    path = write("my.py", BILINEAR_TANH)
    source = load_plugin(path)
    assert source.path == path.resolve()
    assert source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    resolved = resolve(None, ["model.attention.score=bilinear_tanh", "model.attention.width=3"])
    assert getattr(resolved.config.model, "attention").width == 3  # noqa: B009
    assert ("model", "attention", "width") in {path for path, _, _ in all_keys()}
    keys = json_schema()["$defs"]["BilinearTanhConfig"]["properties"]
    assert keys["width"]["description"] == "Width of queries and keys."
    assert keys["score"]["description"] == "Name of the score."
    assert keys["heads"]["description"].startswith("Number of")


def test_the_config_lists_a_plugin_that_it_uses_with_its_digest(write: Write) -> None:
    source = load_plugin(write("my.py", BILINEAR_TANH))
    assert resolve(None).config.plugins == []
    (entry,) = resolve(None, SCORE).config.plugins
    assert (entry.path, entry.module, entry.sha256) == (str(source.path), None, source.sha256)


def test_a_plugin_is_loaded_once(write: Write) -> None:
    path, copy = write("my.py", BILINEAR_TANH), write("b/other.py", BILINEAR_TANH)
    assert load_plugin(path) == load_plugin(str(path)) == load_plugin(copy)


def test_the_paths_of_a_config_are_relative_to_its_folder(write: Write) -> None:
    path = write("sub/my.py", BILINEAR_TANH)
    config = write("sub/my.yaml", "plugins: [my.py]\nmodel: {attention: {score: bilinear_tanh}}\n")
    (entry,) = resolve(config).config.plugins
    assert entry.path == str(path.resolve())


def test_the_paths_of_an_override_are_relative_to_the_current_folder(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("my.py", BILINEAR_TANH)
    config = write("sub/my.yaml", "name: mine\n")
    monkeypatch.chdir(tmp_path)
    assert resolve(config, ["plugins=[my.py]", *SCORE]).config.plugins


def test_a_module(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("packaged_attention.py", BILINEAR_TANH)
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setitem(sys.modules, "packaged_attention", None)
    del sys.modules["packaged_attention"]
    config = resolve(None, ["plugins=[packaged_attention]", *SCORE]).config
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert config.model_dump()["plugins"] == [{"module": "packaged_attention", "sha256": digest}]


def test_an_installed_package_offers_a_plugin(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("offered_attention.py", BILINEAR_TANH)
    write("offered-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: offered\nVersion: 1.0\n")
    points = "[seqattn.plugins]\nbilinear = offered_attention\n"
    write("offered-1.0.dist-info/entry_points.txt", points)
    monkeypatch.syspath_prepend(path.parent)
    with pytest.raises(ConfigError):  # an installed package is not loaded before it is asked for
        resolve(None, SCORE)
    assert "offered_attention" not in sys.modules
    (entry,) = resolve(None, ["plugins=[bilinear]", *SCORE]).config.plugins
    assert entry.module == "offered_attention"
    del sys.modules["offered_attention"]


def test_a_missing_file_and_a_missing_module(tmp_path: Path) -> None:
    assert error_of(tmp_path / "gone.py") == (
        f"{tmp_path / 'gone.py'}: the plugin cannot be read (No such file or directory). Give the"
        " path of a Python file."
    )
    assert error_of("no.such_module") == (
        "no.such_module: there is no module of this name. Install the module, or give the path of a"
        " file, such as such_module.py."
    )


def test_an_exception_names_the_line_and_leaves_nothing(write: Write) -> None:
    path = write("my.py", f"{BILINEAR_TANH}\n\nraise RuntimeError('too early')\n")
    line = path.read_text().count("\n")
    found = error_of(path)
    assert found == f"{path}:{line}: the plugin cannot be loaded: RuntimeError: too early"
    with pytest.raises(ConfigError, match="expected one of uniform, dot"):
        resolve(None, SCORE)
    path.write_text(BILINEAR_TANH)
    load_plugin(path)
    assert resolve(None, SCORE)


def test_a_syntax_error_names_the_line(write: Write) -> None:
    path = write("my.py", "import seqattn\n\ndef broken(:\n    pass\n")
    assert error_of(path).startswith(f"{path}:3: the plugin cannot be loaded: SyntaxError: ")


def test_a_plugin_that_registers_nothing(write: Write) -> None:
    path = write("my.py", "import seqattn\n")
    assert error_of(path) == (
        f"{path}: registers nothing. A plugin contains a class or a function with a decorator such"
        " as @seqattn.register_score."
    )


def test_a_name_that_another_plugin_has(write: Write) -> None:
    first = write("first.py", BILINEAR_TANH)
    second = write("second.py", f"{BILINEAR_TANH}\n# another file\n")
    load_plugin(first)
    assert error_of(second) == (
        f"{second}: registers the score bilinear_tanh, and so does {first}. Give one of the two"
        " another name."
    )


def test_a_name_that_a_plugin_registers_twice(write: Write) -> None:
    path = write("my.py", f"{BILINEAR_TANH}\n{BILINEAR_TANH}")
    assert error_of(path) == (
        f"{path}: registers the score bilinear_tanh twice. Give one of the two another name."
    )


@pytest.mark.parametrize(
    "change",
    [
        "model.attention.score=mine", "model.attention={score: dot, normalizer: mine}",
         "model.cell=mine",
         "data.kind=mine", "model.kind=mine",
    ],
)  # fmt: skip
def test_an_unknown_name_may_be_that_of_a_plugin(write: Write, change: str) -> None:
    hint = "If a plugin defines this name, load the plugin with plugins: [FILE] or --plugin FILE."
    with pytest.raises(ConfigError) as caught:
        resolve(None, [change])
    assert hint in str(caught.value)
    load_plugin(write("my.py", PARTS))
    with pytest.raises(ConfigError) as caught:
        resolve(None, [change])
    assert hint in str(caught.value)


CONFIG = """
data: {kind: squares, n_train: 16, n_validation: 8, n_test: 8}
model: {kind: mean}
training: {epochs: 1}
"""
EXPECTED_MEANING = "expected one of 'distribution', 'partial', 'strength'; got None."


def test_an_unknown_meaning_in_the_output_of_a_model(
    write: Write, seqattn: Callable[..., Ended]
) -> None:
    path = write("my.py", MEAN_MODEL.replace("AttentionMap(weights)",
                                             "AttentionMap(weights, meaning=None)"))  # fmt: skip
    done = seqattn("train", write("mine.yaml", CONFIG), "--plugin", path)
    assert done.code == 2
    assert f"AttentionMap.meaning: {EXPECTED_MEANING}" in done.err


@pytest.mark.parametrize(
    ("decorator", "noun", "name"),
    [
        ('register_score("dot", BilinearTanhConfig)', "score", "dot"),
        ('register_task("squares", C)', "task", "squares"),
        ('register_check("dead heads")', "check", "dead heads"),
    ],
)
def test_a_name_of_seqattn(write: Write, decorator: str, noun: str, name: str) -> None:
    content = BILINEAR_TANH if noun == "score" else (
        "import seqattn\nclass C(seqattn.TaskConfig):\n    pass\n"
        f"@seqattn.{decorator}\ndef f(*a):\n    pass\n"
    )  # fmt: skip
    path = write("my.py", content.replace('register_score("bilinear_tanh", BilinearTanhConfig)',
                                          decorator))  # fmt: skip
    assert error_of(path) == (
        f"{path}: registers the {noun} {name}, which is a {noun} of seqattn. Choose another name."
    )


def test_a_plugin_that_was_changed_after_it_was_loaded(write: Write) -> None:
    path = write("my.py", BILINEAR_TANH)
    load_plugin(path)
    write("my.py", BILINEAR_TANH.replace("tanh()", "sigmoid()"))
    assert error_of(path) == (
        f"{path}: was changed after it was loaded. Start Python again to load the new version."
    )


def test_the_error_of_a_listed_plugin_names_the_line_of_the_config(write: Write) -> None:
    config = write("my.yaml", "name: mine\nplugins: [gone.py]\n")
    with pytest.raises(PluginError, match=rf"^{config}:2: {config.parent}/gone.py: the plugin"):
        resolve(config)


def test_a_module_of_torch_without_an_initial_distribution(write: Write) -> None:

    load_plugin(write("plain.py", TORCH_LINEAR.replace("init_bound = 0.4", "pass")))
    config = resolve(None, ["model.attention.score=torch_linear"]).config
    with pytest.raises(
        PluginError, match=r"^attention.score.key.weight: the class OwnLinear has no"
    ):
        build_model(config.model, 2, 0)
