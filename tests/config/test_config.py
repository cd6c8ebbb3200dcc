from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqattn.config import (
    DEFAULT,
    Config,
    as_plain,
    config_differences,
    json_schema,
    leaves,
    read_stored,
    resolve,
    to_yaml,
)
from seqattn.config.keys import all_keys
from seqattn.config.reading import MAX_BYTES, read_yaml_list, read_yaml_text
from seqattn.config.schema import ConstantForcing
from seqattn.errors import ConfigError
from tests.conftest import ROOT

COMPARISONS = sorted(
    path
    for folder in ("bottleneck", "claims", "compare")
    for path in (ROOT / "configs" / folder).rglob("*.yaml")
)
CONFIGS = [path for path in sorted((ROOT / "configs").rglob("*.yaml")) if path not in COMPARISONS]


def mistakes(tmp_path: Path, text: str | bytes, *overrides: str) -> str:
    """What is said of a config that is wrong; its path reads FILE."""
    file = tmp_path / "my.yaml"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        resolve(file, overrides)
    return str(caught.value).replace(str(file), "FILE")


# --- what is right ------------------------------------------------------------------------------


def test_the_shipped_configs_are_all_here() -> None:
    assert {path.name for path in CONFIGS} >= {
        "squares.yaml", "notebook.yaml", "plain.yaml", "additive.yaml", "bahdanau.yaml",
        "variable_length.yaml",
    }  # fmt: skip
    mechanisms = [path for path in CONFIGS if path.parent.name == "mechanisms"]
    assert len(mechanisms) == 25


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_a_shipped_config_is_right_and_an_essay(path: Path) -> None:
    config = resolve(path).config
    assert config.name == path.stem
    text = path.read_text()
    up = "../" * (len(path.relative_to(ROOT / "configs").parts) - 1)
    assert text.startswith(f"# yaml-language-server: $schema={up}seqattn.schema.json\n")
    assert f"seqattn train {path.relative_to(ROOT)}" in text
    for heading in ("# Purpose", "# Expect", "# Time"):
        assert heading in text
    assert "EXPECT" not in text


@functools.cache
def checked_schema() -> jsonschema.Draft202012Validator:
    """What validates configs; the schema itself is held against the draft once."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_schema_accepts_the_shipped_configs_and_their_resolved_form(path: Path) -> None:
    import yaml

    checked_schema().validate(yaml.safe_load(path.read_text()))
    checked_schema().validate(as_plain(resolve(path).config))


@pytest.mark.parametrize(
    "content",
    [
        {"model": {"attention": {"score": "dot", "key_dim": 3}}},
        {"model": {"hidden": 3}},
        {"data": {"noise": -1}},
        {"training": {"teacher_forcing": {"schedule": "linear", "probability": 0.5}}},
    ],
)
def test_the_schema_refuses_what_the_config_refuses(content: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        checked_schema().validate(content)


def test_the_defaults_are_those_of_the_contract() -> None:
    plain = as_plain(Config())
    assert (plain["name"], plain["seed"]) == ("squares", 23)
    assert plain["data"] == {
        "kind": "squares", "n_train": 256, "n_validation": 128, "n_test": 128, "train_seed": 13,
        "validation_seed": 17, "test_seed": 19, "noise": 0.1, "source_length": 2,
        "variable_length": False,
    }  # fmt: skip
    assert plain["model"].items() >= {
        "kind": "recurrent", "cell": "gru", "hidden_dim": 16, "layers": 1, "bidirectional": False,
        "context": "output",
    }.items()  # fmt: skip
    assert plain["model"]["attention"].items() >= {
        "score": "scaled_dot", "normalizer": "softmax", "heads": 1, "project_values": False,
    }.items()  # fmt: skip
    assert plain["training"].items() >= {
        "epochs": 100, "batch_size": 16, "optimizer": "adam", "learning_rate": 0.01,
        "clip_norm": None, "early_stopping": None,
        "teacher_forcing": {"schedule": "constant", "probability": 0.5, "coin": "step"},
    }.items()  # fmt: skip


def test_every_knob_has_a_sentence_and_a_default() -> None:
    keys = list(all_keys())
    assert len(keys) > 50
    for path, section, _ in keys:
        field = section.model_fields[path[-1]]
        assert field.description, f"{'.'.join(path)} has no sentence"
        if path[-1] == "path" or path[:2] == ("data", "window"):
            continue  # nobody's file, and nobody's windows, could be a default
        assert not field.is_required(), f"{'.'.join(path)} has no default"


def test_a_config_is_frozen() -> None:
    with pytest.raises(Exception, match="frozen"):
        Config().seed = 4  # type: ignore[misc]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_what_is_written_loads_again(path: Path, tmp_path: Path) -> None:
    config = resolve(path).config
    for text in (to_yaml(config), to_yaml(config, resolve(path).origins)):
        file = tmp_path / "again.yaml"
        file.write_text(text)
        assert resolve(file).config == config


@settings(max_examples=40)
@given(
    rate=st.floats(1e-12, 100, exclude_min=True), seed=st.integers(0, 2**63 - 1),
    name=st.from_regex(r"\A[A-Za-z0-9_][A-Za-z0-9._-]{0,20}\Z"),
)  # fmt: skip
def test_any_value_survives_the_file(rate: float, seed: int, name: str) -> None:
    config = Config.model_validate(
        {"name": name, "seed": seed, "training": {"learning_rate": rate}}
    )
    assert Config.model_validate(read_yaml_text(to_yaml(config), "").content) == config


ODD = [
    ",", ";", "@id", "%id", "*id", "!x", "[id", "`", "?", "...", "a\tb", "a: [b", "a, b", "x]", "# no",
    "\U0001f600", "gr\xf6\xdfe|x", "<b>z</b>", "\\ud83d\\ude00", "a\x85b", "a\u2028b", "\x7f", "null",
    "12", "012", "1e3", "off", "~", "'", '"', "{a}", "- a", "a:", ":a", " a", "a ",
]  # fmt: skip


@given(
    names=st.lists(
        st.sampled_from(ODD) | st.text(min_size=1, max_size=9), min_size=3, max_size=6, unique=True
    ),
    path=st.sampled_from(ODD), delimiter=st.sampled_from(",;|\t"),
)  # fmt: skip
def test_any_name_survives_the_file(names: list[str], path: str, delimiter: str) -> None:
    """Columns and files are called what their owners call them."""
    series, time, *features = names
    data = {"kind": "file", "path": path, "series": series, "time": time, "source_length": 2,
            "features": features, "delimiter": delimiter, "decimal": "."}  # fmt: skip
    config = Config.model_validate({"data": data})
    assert Config.model_validate(read_yaml_text(to_yaml(config), "").content) == config


def test_every_value_says_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("name: mine\nmodel:\n  hidden_dim: 4\n  attention: {score: dot}\n")
    origins = resolve(file, ["training.epochs=3", "model.attention.project_values=true"]).origins
    assert origins["name"] == f"{file}:1"
    assert origins["model.hidden_dim"] == f"{file}:3"
    assert origins["model.attention.score"] == f"{file}:4"
    assert origins["training.epochs"] == "--set training.epochs=3"
    assert origins["model.attention.project_values"].startswith("--set")
    assert origins["seed"] == DEFAULT
    assert set(origins) == {".".join(path) for path, _ in leaves(as_plain(Config.model_validate(
        {"model": {"attention": {"score": "dot"}}})))}  # fmt: skip


def test_two_pairs_of_brackets_give_a_single_list() -> None:
    assert read_yaml_list("[a, 1]", "") == read_yaml_list("a, 1", "") == ["a", 1]
    assert read_yaml_list("[[a, 1]]", "") == [["a", 1]]


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model.attention=", "--set model.attention=: has no value after '='. To set nothing, write"
         " null: --set model.attention=null."),
        ("name= ", "--set name= : has no value"),
        ("name=#1", "write null: --set name=null; a # in a value needs quotes."),
        ("TRAINING.epochs=3", "--set TRAINING.epochs=3: TRAINING: unknown key. Did you mean"
         " training.epochs?"),
        ("TRAINING.qqqq=3", "TRAINING: unknown key. Did you mean training?"),
        ("TRAINING={epochs: 3, momentum: 0}", "TRAINING: unknown key. Did you mean training?"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_override_names_the_override(
    tmp_path: Path, override: str, words: str
) -> None:
    assert words in mistakes(tmp_path, "name: mine\n", override)


def test_a_pipe_is_read_as_a_config_but_not_in_a_run_folder(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("seed: 4\n",), daemon=True)
    writer.start()
    assert resolve(pipe).config.seed == 4
    writer.join()
    with pytest.raises(ConfigError, match="Is a named pipe, not a regular file"):
        read_stored(pipe)


def test_set_goes_through_the_same_validation() -> None:
    config = resolve(None, ["training.learning_rate=1e-4", "model.attention=null"]).config
    assert config.training.learning_rate == 1e-4
    assert config.model.attention is None
    again = resolve(None, ["model.attention={score: additive, key_dim: 3}"]).config.model.attention
    assert again is not None
    assert again.score == "additive"
    with pytest.raises(ConfigError, match=r"--set data.noise='0.1': data.noise: expected a number"):
        resolve(None, ["data.noise='0.1'"])


def test_differences_are_by_leaf() -> None:
    old, new = Config(), resolve(None, ["model.attention.score=dot", "seed=4"]).config
    found = config_differences(old, new)
    assert found["seed"] == (23, 4)
    assert found["model.attention.score"] == ("scaled_dot", "dot")
    assert config_differences(old, Config()) == {}


# --- YAML ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4), ("1E5", 1e5), (".5", 0.5), ("5.", 5.0), ("-3", -3), ("+3", 3),
        ("0", 0), ("off", "off"), ("no", "no"), ("yes", "yes"), ("012", "012"), ("12:30", "12:30"),
        ("0x10", "0x10"), ("1_000", "1_000"), ("true", True), ("False", False), ("null", None),
        ("~", None), ("'5'", "5"), ('"true"', "true"), ("2020-01-01", "2020-01-01"),
        (".inf", float("inf")), ("-.INF", float("-inf")), ("=", "="),
    ],
)  # fmt: skip
def test_scalars_follow_yaml_1_2(text: str, value: object) -> None:
    found = read_yaml_text(f"key: {text}", "").content["key"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "FILE: is empty. A config is a mapping"),
        ("# only a comment\n", "FILE: is empty"),
        ("- a\n- b\n", "FILE:1: expected a mapping of keys such as 'name: squares', got a list"),
        ("squares", "FILE:1: expected a mapping of keys"),
        ("seed: 1\nseed: 2\n", "FILE:2: seed: is repeated, first on line 1"),
        (
            "data:\n  noise: 0\n  noise: 1\n",
            "FILE:3: data.noise: is repeated, first on line 2",
        ),
        ("a: &x 1\nb: *x\n", "FILE:1: anchors and aliases ('&x') are not allowed"),
        ("name: !!python/object/apply:os.system [ls]\n", "FILE:1: tags ("),
        ("name: !x y\n", "FILE:1: tags ('!x') are not allowed"),
        ("seed: 1\n---\nseed: 2\n", "FILE:2: a second document starts here"),
        ("a: [1, 2\n", "is not valid YAML"),
        ("\tseed: 1\n", "FILE:1: is indented with a tab"),
        ("1: x\n", "FILE:1: a key must be text, got 1"),
        ("? [a]\n: b\n", "a key must be text"),
        ("a: " + "[" * 30 + "]" * 30, "is nested deeper than 20 levels"),
        ("{" * 20000, "is nested deeper than 20 levels"),
        ("seed: " + "9" * 5000 + "\n", "FILE:1: seed: a number of 5000 digits is too long"),
        (b"name: caf\xe9\n", "FILE:1: byte 0xe9 is not UTF-8"),
        (b"name: a\x00b\n", "FILE:1: character 0x0 is not allowed"),
        (
            b"#" * (MAX_BYTES + 1),
            "FILE: cannot be read (Its 1,000,001 bytes exceed the limit of 1,000,000 bytes)",
        ),
    ],
    ids=range(20),
)
def test_yaml_that_no_config_needs_is_refused(
    tmp_path: Path, text: str | bytes, words: str
) -> None:
    assert words in mistakes(tmp_path, text)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbfseed: 4\n")
    assert resolve(file).config.seed == 4


def test_paths_that_are_no_config(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"\(Is a directory, not a regular file\). Give the path of a YAML file"
    ):
        resolve(tmp_path)
    with pytest.raises(ConfigError, match="no such file. Give the path of a YAML file"):
        resolve(tmp_path / "none.yaml")


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    """Root may read everything, so the reading is done by a process that is nobody."""
    file = tmp_path / "secret.yaml"
    file.write_text("seed: 1\n")
    file.chmod(0)
    code = (
        "import os, pathlib\nfrom seqattn.config import resolve\n"
        f"path = pathlib.Path({str(file)!r})\n"
        "if os.geteuid() == 0:\n"
        "    for up in path.parents[:3]: os.chmod(up, 0o755)\n"
        "    os.setuid(65534)\n"
        "try: resolve(path)\nexcept Exception as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot be read (Permission denied)" in done.stdout, os.geteuid()


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read_yaml_text(text, "any")
    except ConfigError as error:
        assert str(error).startswith("any")


# --- mistakes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nam: x", "FILE:1: nam: unknown key. Did you mean name?"),
        ("epochs: 4", "FILE:1: epochs: unknown key here; this key belongs in training."),
        ("model: {score: dot}", "model.score: unknown key here; this key belongs in model.attention"),
        ("model:\n  hiddenDim: 3", "FILE:2: model.hiddenDim: unknown key. Did you mean model.hidden_dim?"),
        ("data: {qqqq: 1}", "data.qqqq: unknown key. The keys of data (squares) are kind, n_train"),
        ("model: {attention: {score: dot, key_dim: 3}}",
         "model.attention (dot) has no such key; it works with score: scaled_dot or additive or coverage."),
        ("seed: '5'", "FILE:1: seed: expected a whole number, got the text '5'. Remove the quotes."),
        ("seed: 010", "FILE:1: seed: expected a whole number, got the text '010'. A number cannot"
         " start with 0: write 10, or 8 if it is octal."),
        ("seed: 09", "A number cannot start with 0: write 9."),
        ("seed: 0x1f", "got the text '0x1f'. Write 31."),
        ("seed: 1_000", "got the text '1_000'. Write 1000."),
        ("model: {attention: }", "FILE:1: model.attention: has no value. Write null to set nothing"),
        ("plugins:\n  - a.py\n  -", "FILE:3: plugins: has no value."),
        ("seed: true", "seed: expected a whole number, got true."),
        ("seed: 1.0", "seed: expected a whole number, got 1.0."),
        ("seed: null", "seed: expected a whole number, got nothing (null)."),
        ("seed: -1", "seed: must be at least 0, got -1."),
        ("seed: 99999999999999999999999", "seed: must be at most 9,223,372,036,854,775,807, got"),
        ("model: {'': 1}", "model.'': is an empty key. Remove it, or name a key."),
        ("'': {a: 1}", "FILE:1: '': is an empty key. Remove it, or name a key."),
        ("data: {n_train: 0}", "data.n_train: must be at least 1, got 0."),
        ("data: {n_train: 10000001}", "data.n_train: must be at most 10,000,000, got 10000001."),
        ("data: {noise: .nan}", "data.noise: expected a finite number, got nan."),
        ("data: {noise: .inf}", "data.noise: expected a finite number, got inf."),
        ("data: {noise: [1]}", "data.noise: expected a number, got a list."),
        ("data: {noise: 1e9999}", "data.noise: expected a finite number, got inf."),
        ("data: {source_length: 4}", "data.source_length: must be at most 3, got 4."),
        ("data: {variable_length: yes}", "expected true or false, got the text 'yes'. Write true."),
        ("data: 3", "FILE:1: data: expected a section with keys (kind, n_train"),
        ("data: {train_seed: 19}", "FILE:1: data.test_seed: is 19, and so is data.train_seed"),
        ("training: {learning_rate: 0}", "training.learning_rate: must be greater than 0, got 0."),
        ("training: {learning_rate_schedule: {kind: cosine, minimum: 1}}",
         "training.learning_rate_schedule: has minimum 1.0, above learning_rate 0.01"),
        ("training: {learning_rate_schedule: {kind: cosine, minimum: 0.01000000001}}",
         "has minimum 0.01000000001, above learning_rate 0.01"),
        ("training: {momentum: 0.9}", "training.momentum: needs optimizer: sgd"),
        ("training: {optimizer: Adam}", "expected one of adam, adamw, sgd; got the text 'Adam'. Did you mean adam?"),
        ("training: {early_stopping: true}", "expected a section with keys (patience, min_delta), got true."),
        ("training: {teacher_forcing: {schedule: linaer}}", "Did you mean linear?"),
        ("training: {teacher_forcing: {schedule: [1]}}", "training.teacher_forcing.schedule: expected one of"),
        ("model: {attention: {score: scaled-dot}}", "Did you mean scaled_dot?"),
        ("model: {attention: {heads: 3}}", "heads: 3, which does not divide model.hidden_dim = 16: every head needs an equal share. Choose heads from 1, 2, 4, 8, 16"),
        ("model: {attention: {heads: 4, key_dim: 6}}", "heads: 4, which does not divide model.attention.key_dim = 6"),
        ("model: {attention: {estimator: reinforce}}", "is reinforce, but normalizer: softmax has gradients of its own"),
        ("model: {attention: {normalizer: hard}}", "is hard, which needs estimator: straight_through or reinforce"),
        ("model: {attention: {normalizer: hard, estimator: reinforce, score: uniform}}", "gives all steps the same score. Choose another score"),
        ("model: {attention: {normalizer: hard, estimator: reinforce, location: {kind: local}}}", "is local, which spreads weights that normalizer: hard puts on one point"),
        ("model: {attention: {location: {kind: location_shift, shift_range: 4}}}", "is 4, but must be odd: 0, and as many shifts backward as forward. Choose 3 or 5"),
        ("model: {input_feeding: true, attention: null}", "with attention: null there is no attentional vector"),
        ("model: {input_feeding: true, context: input}", "with context: input the context itself joins the input"),
        ("model: {readout: tanh, attention: null}", "with attention: null there is no context to combine. Set it to linear"),
        ("model: {readout: tanh, context: input}", "with context: input the output is made from the state alone"),
        ("model: {attention: {location: {window: 3}}}", "it works with kind: local."),
        ("{model: {kind: transformer}, training: {teacher_forcing: {probability: 0.5}}}", "has teacher_forcing with probability: 0.5, but a transformer is trained on all target steps at once"),
        ("{model: {kind: fast_weights}, training: {compile: auto}}", "compile: auto, which compiles the step of a recurrent cell; model.kind fast_weights has none"),
        ("model: {attention: {score: cosine, temperature: 0.0001}}", "model.attention.temperature: must be at least 0.001"),
        ("model: {heads: 2}", "it works with kind: transformer. Or did you mean model.attention.heads?"),
        ("model: {kind: transformer, heads: 5}", "is 5, which does not divide model_dim = 32: every head needs an equal share. Choose from 1, 2, 4, 8, 16, 32"),
        ("model: {kind: transformer, positions: learned}", "must be the number of learned positions"),
        ("model: {kind: transformer, longest: 9}", "requires positions: learned; positions: sinusoidal has no limit"),
        ("model: {kind: fast_weights, layers: 2}", "it works with kind: recurrent or transformer"),
        ("model: {dropout: 1}", "model.dropout: must be less than 1"),
        ("model: {attention: {key_dim: 4, project_query_key: false}}", "needs project_query_key: true"),
        ("model: {attention: none}", "expected a section with keys (score, normalizer"),
        ("model: {cell: lsmt}", "Did you mean lstm?"),
        ("model: {attention: null, context: input}", "with attention: null there is no context"),
        ("name: ../x", "name: may have up to 100 letters, digits, '.', '_' and '-'"),
        ("name: a/b", "name: may have up to 100 letters"),
        ("name: ..", "name: may have up to 100 letters"),
        ("name: ''", "name: may have up to 100 letters"),
        ("name: -q", "name: may have up to 100 letters"),
        ("name: 5", "name: expected text, got 5."),
    ],
    ids=range(70),
)  # fmt: skip
def test_a_mistake_says_where_what_and_what_would_do(tmp_path: Path, text: str, words: str) -> None:
    assert words in mistakes(tmp_path, text)


@pytest.mark.parametrize(
    "training",
    ["", "training: {epochs: 3}", "training: {teacher_forcing: {coin: sequence}}",
     "training: {teacher_forcing: {schedule: constant}}"],
)  # fmt: skip
def test_the_default_of_teacher_forcing_is_one_that_the_model_can_do(
    tmp_path: Path, training: str
) -> None:
    file = tmp_path / "t.yaml"
    key = "training.teacher_forcing.probability"
    for kind, probability in (("transformer", 1.0), ("recurrent", 0.5), ("fast_weights", 0.5)):
        file.write_text(f"model: {{kind: {kind}}}\n{training}\n")
        found = resolve(file)
        forcing = found.config.training.teacher_forcing
        assert isinstance(forcing, ConstantForcing)
        assert forcing.probability == probability
        assert found.origins[key] == "default"
    assert resolve(None, ["model.kind=transformer"]).origins[key] == "default"
    for override in ("training.teacher_forcing.schedule=linear", f"{key}=0.5"):
        with pytest.raises(ConfigError, match="a transformer is trained on all target steps"):
            resolve(None, ["model.kind=transformer", override])


def test_all_mistakes_come_at_once_in_order(tmp_path: Path) -> None:
    message = mistakes(
        tmp_path,
        "nam: x\nseed: -1\ndata:\n  noise: a\nmodel:\n  hiden_dim: 3\n",
        "training.epochs=0", "what", "data.noise.deep=1", "training.=1",
    )  # fmt: skip
    lines = message.splitlines()
    assert lines[0] == "FILE: 8 mistakes."
    assert [line.split(":")[1] for line in lines[1:5]] == ["1", "2", "4", "6"]
    assert "--set what: expected PATH=VALUE, such as training.epochs=10." in message
    assert (
        "--set training.=1: expected PATH=VALUE, such as training.epochs=10, got an empty key"
        in message
    )
    assert "--set data.noise.deep=1: data.noise is not a section." in message
    assert "--set training.epochs=0: training.epochs: must be at least 1, got 0." in message


def misspellings(key: str) -> list[str]:
    """Six ways to get a key wrong."""
    return [
        key[1:], key[:-1], key[0] + key, key.replace("_", "") if "_" in key else key.upper(),
        key[:1] + key[2:3] + key[1:2] + key[3:], key + "s",
    ]  # fmt: skip


def test_a_misspelt_key_finds_its_way_home() -> None:
    tried, found = 0, 0
    known = {path: section for path, section, _ in all_keys()}
    for path, section in known.items():
        for wrong in misspellings(path[-1]):
            if wrong in section.model_fields:
                continue
            content: Any = {wrong: 1}
            for key in reversed(path[:-1]):
                content = {key: content}
            try:
                read = json.loads(json.dumps(content))
                resolve(None, [f"{path[0]}={json.dumps(read[path[0]])}"] if len(path) > 1
                        else [f"{wrong}=1"])  # fmt: skip
            except ConfigError as error:
                tried += 1
                found += f"Did you mean {'.'.join(path)}?" in str(error)
    assert tried > 250
    assert found / tried > 0.85


@pytest.mark.parametrize(
    ("sets", "name"),
    [([], "squares"), (["data.kind=lag"], "lag"), (["data.kind=lag", "name=mine"], "mine")],
)
def test_a_config_without_a_name_has_that_of_its_data(sets: list[str], name: str) -> None:
    assert resolve(None, sets).config.name == name
