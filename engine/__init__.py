"""Token ids to vectors and scores: torch, numpy and safetensors, nothing of text or HTTP."""
