"""Other embedding libraries on the corpus that our server gets, each in a process of its own."""

from bench.peers.process import Peer

PEERS = (
    Peer("sentence-transformers", "float32", "run_sentence_transformers.py"),
    Peer("sentence-transformers", "bfloat16", "run_sentence_transformers.py"),
    Peer("onnxruntime", "float32", "run_onnxruntime.py", reads_onnx=True),
)
