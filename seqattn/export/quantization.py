"""Weights of one byte: ONNX Runtime's dynamic quantization, which takes inputs as they come."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import onnx
from onnx import ModelProto
from onnxruntime.quantization import QuantType, quantize_dynamic


def quantized(graph: ModelProto) -> ModelProto:
    """The same graph, the matrices of its weights in int8, those inside loops too."""
    logger = logging.getLogger()
    before, logger.level = logger.level, logging.ERROR  # it recommends a step that is not needed
    try:
        with tempfile.TemporaryDirectory(prefix="seqattn-") as home:
            target = Path(home) / "int8.onnx"
            quantize_dynamic(
                graph, target, weight_type=QuantType.QInt8, extra_options={"EnableSubgraph": True}
            )
            return onnx.load(target)
    finally:
        logger.level = before
