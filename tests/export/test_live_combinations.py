"""Which combinations of the model config a live page can contain."""

from __future__ import annotations

import random

from seqattn.errors import UsageError
from seqattn.export.live import trace_live
from tests.export.test_export import FAR, trained_as
from tests.export.test_live import assert_same, of_model, random_source, run
from tests.project.test_contract import ALLOWED, MIXED, OTHERS, name_of

SAMPLE = [
    *random.Random(20261123).sample(ALLOWED + MIXED, 2),
    *random.Random(20261123).sample(OTHERS, 1),
]


def test_every_sampled_combination_is_live_and_equals_the_model() -> None:
    """tests/report/test_live_content.py has the runs that are not live for another reason."""
    live, refused = list[str](), dict[str, str]()
    for config in SAMPLE:
        trained = trained_as(dict(config), FAR)
        try:
            graph = trace_live(trained)
        except UsageError as error:
            refused[name_of(config)] = str(error)
            continue
        part = random_source(trained, 6)
        assert_same(run(graph, trained, part, 5), of_model(trained, part, 5), trained, part)
        live.append(name_of(config))
    assert (len(live), refused) == (len(SAMPLE), {})
