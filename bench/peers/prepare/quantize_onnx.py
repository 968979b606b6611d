"""Matrices of an ONNX model as int8, activations quantized as they come.

python -P bench/peers/prepare/quantize_onnx.py MODEL.onnx OUT.onnx

Runs in the environment of onnxruntime.
"""

import sys

from onnxruntime.quantization import QuantType, quantize_dynamic


def main(model: str, out: str) -> None:
    quantize_dynamic(model, out, per_channel=True, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main(*sys.argv[1:])
