"""Dynamic int8 quantization with ONNX Runtime, without calibration data."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import onnx
from onnx import ModelProto
from onnxruntime.quantization import QuantType, quantize_dynamic


def quantize_int8(graph: ModelProto) -> ModelProto:
    """Return a copy of the graph with int8 weight matrices, including those within loops.

    The weights use 7 of the 8 bits. Processors without VNNI instructions add the products of 8-bit
    numbers in 16 bits, where the products of 8-bit weights can overflow without an error.
    """
    logger = logging.getLogger()
    level, handlers = logger.level, list(logger.handlers)
    logger.level = logging.ERROR  # hides advice on unneeded preprocessing
    try:
        with tempfile.TemporaryDirectory(prefix="seqattn-") as folder:
            target = Path(folder) / "int8.onnx"
            quantize_dynamic(
                graph, target, weight_type=QuantType.QInt8, reduce_range=True,
                extra_options={"EnableSubgraph": True},
            )  # fmt: skip
            return onnx.load(target)
    finally:
        logger.level = level
        logger.handlers[:] = handlers  # the library adds one, which prints the log of later runs
