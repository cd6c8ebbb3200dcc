"""Dynamic int8 quantization with ONNX Runtime, without calibration data."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import onnx
from onnx import ModelProto
from onnxruntime.quantization import QuantType, quantize_dynamic


def quantize_int8(graph: ModelProto) -> ModelProto:
    """Return a copy of the graph with int8 weight matrices, including those within loops."""
    logger = logging.getLogger()
    level, logger.level = logger.level, logging.ERROR  # hides advice on unneeded preprocessing
    try:
        with tempfile.TemporaryDirectory(prefix="seqattn-") as folder:
            target = Path(folder) / "int8.onnx"
            quantize_dynamic(
                graph,
                target,
                weight_type=QuantType.QInt8,
                reduce_range=True,
                extra_options={"EnableSubgraph": True},
            )
            return onnx.load(target)
    finally:
        logger.level = level
