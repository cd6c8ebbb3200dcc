"""ONNX Runtime in the page: it starts from embedded elements, without a network and without eval."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from seqattn.export.check import build_session
from seqattn.report import render_page
from seqattn.report.content import run_content
from seqattn.runs import RunFolder
from tests.browser.conftest import Open, Opened

RUN = """async ([graph, source, lengths]) => {
  const bytes = Uint8Array.from(atob(graph), (sign) => sign.charCodeAt(0));
  const session = await window.seqattn.createSession(bytes);
  const inputs = (scale) => ({
    source: {type: "float64", data: Float64Array.from(source, (x) => x * scale), dims: [1, source.length]},
    lengths: {type: "int64", data: BigInt64Array.from(lengths, BigInt), dims: [1]},
  });
  const runs = await Promise.all([1, 2, 3].map((scale) => session.run(inputs(scale))));
  return [session.inputNames, runs.map(({sum}) => [sum.type, sum.dims, Array.from(sum.data)])];
}"""


@pytest.fixture(scope="module")
def graph() -> Any:
    """The graph of tanh(source) + lengths as float64."""
    nodes = [
        helper.make_node("Cast", ["lengths"], ["number"], to=TensorProto.DOUBLE),
        helper.make_node("Cast", ["source"], ["single"], to=TensorProto.FLOAT),
        helper.make_node("Tanh", ["single"], ["bounded"]),
        helper.make_node("Cast", ["bounded"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["wide", "number"], ["sum"]),
    ]
    inputs = [
        helper.make_tensor_value_info("source", TensorProto.DOUBLE, [1, "S"]),
        helper.make_tensor_value_info("lengths", TensorProto.INT64, [1]),
    ]
    outputs = [helper.make_tensor_value_info("sum", TensorProto.DOUBLE, [1, "S"])]
    return helper.make_model(
        helper.make_graph(nodes, "sum", inputs, outputs),
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
    )


@pytest.fixture
def live_page(runs: dict[str, Path], tmp_path: Path) -> Callable[..., Path]:
    """Write the page of a run with ONNX Runtime in it, changed by a function of its text."""

    def write(change: Callable[[str], str] = str) -> Path:
        content = run_content(RunFolder(runs["squares"]), examine=False)
        content["live"] = {"models": []}
        path = tmp_path / "live.html"
        path.write_text(change(render_page(content)), encoding="utf-8")
        return path

    return write


def test_a_graph_runs_as_in_python(
    opened_in_both: Open, live_page: Callable[..., Path], graph: Any
) -> None:
    source, lengths = [0.5, -2.0, 7.0], [3]
    found = opened_in_both(live_page())
    text = base64.b64encode(graph.SerializeToString()).decode()
    names, answers = found.page.evaluate(RUN, [text, source, lengths])
    assert names == ["source", "lengths"]
    session = build_session(graph)
    for scale, (kind, shape, values) in enumerate(answers, start=1):
        inputs = {"source": scale * np.array([source]), "lengths": np.array(lengths)}
        (wanted,) = session.run(None, inputs)
        assert (kind, shape) == ("float64", [1, 3])
        np.testing.assert_allclose([values], wanted, rtol=1e-6)


def failure(found: Opened, expression: str) -> str:
    """The message of the error that an expression ends with, or "none"."""
    return str(
        found.page.evaluate(f"async () => {{ try {{ await {expression}; return 'none'; }}"
                            " catch (error) { return `${error.name}: ${error.message}`; } }")
    )  # fmt: skip


def test_a_damaged_graph_is_a_sentence(
    opened_in_both: Open, live_page: Callable[..., Path]
) -> None:
    found = opened_in_both(live_page())
    message = failure(found, "window.seqattn.createSession(Uint8Array.of(1, 2, 3, 4))")
    assert message.startswith("RuntimeError: The model in this page is damaged: ")


@pytest.mark.parametrize("live", [True, False])
def test_the_policy_allows_webassembly_for_a_live_model_and_nothing_else(
    live: bool, live_page: Callable[..., Path]
) -> None:
    def without(page: str) -> str:
        return page

    page = live_page(without).read_text()
    if not live:
        content = json.loads(page.partition('id="data">')[2].partition("</script>")[0])
        page = render_page({**content, "live": None})
    policy = page.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    nonce, *others = rules.pop("script-src").split()
    assert nonce.startswith("'nonce-")
    assert others == (["'wasm-unsafe-eval'", "blob:"] if live else [])
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
    }
    assert ('id="ort-wasm"' in page) == live


FORBIDDEN = """async () => {
  const tried = {};
  const attempt = async (name, action) => {
    try { await action(); tried[name] = "allowed"; } catch { tried[name] = "forbidden"; }
  };
  const script = (fill) => new Promise((resolve, reject) => {
    const element = document.createElement("script");
    element.onload = resolve;
    element.onerror = reject;
    fill(element);
    document.head.append(element);
    setTimeout(() => (window.injected ? resolve() : reject()), 300);
  });
  await attempt("fetch", () => fetch("http://example.invalid/x"));
  await attempt("data", () => fetch("data:text/plain,x"));
  await attempt("import", () => import("http://example.invalid/x.js"));
  await attempt("import data", () => import("data:text/javascript,1"));
  await attempt("inline", () => script((element) => { element.textContent = "window.injected = 1"; }));
  await attempt("network", () => script((element) => { element.src = "http://example.invalid/x.js"; }));
  return tried;
}"""


def test_the_page_cannot_reach_anything(
    browser: Any, firefox: Any, live_page: Callable[..., Path]
) -> None:
    path = live_page()
    for each in (browser, firefox):
        page = each.new_context().new_page()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        tried = page.evaluate(FORBIDDEN)
        assert set(tried.values()) == {"forbidden"}, tried
        page.context.close()
