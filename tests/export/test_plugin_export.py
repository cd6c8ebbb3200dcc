"""`seqattn check-plugin` compares the graphs of mechanisms that claim to be exportable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seqattn.experiments.contract import check_plugin
from tests.conftest import ROOT
from tests.plugins.conftest import _no_plugins as _no_plugins
from tests.plugins.conftest import write as write
from tests.plugins.test_check_plugin import states_of


def test_an_export_that_is_claimed_is_checked() -> None:
    (report,) = check_plugin(ROOT / "examples/plugins/bilinear_tanh.py", limit=1)
    assert states_of(report)["export"] == "passed"
    assert "largest difference" in report.rows[-1].message


def test_a_false_claim_of_export_is_found(write: Callable[..., Path]) -> None:
    content = (ROOT / "examples/plugins/bilinear_tanh.py").read_text()
    old = "return (products / math.sqrt(keys.shape[-1])).tanh()"
    assert old in content
    content = content.replace(old, "return (products / (1 + float(products.abs().max()))).tanh()")
    (report,) = check_plugin(write("constant.py", content), limit=1)
    row = report.rows[-1]
    assert (row.check, row.state) == ("export", "failed"), row
