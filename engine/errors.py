"""
EngineError
├── CheckpointError   the files do not hold the model they announce
└── SelfTestFailed    the engine computes, but not what it should
"""


class EngineError(Exception):
    """What the engine cannot do, in one sentence."""


class CheckpointError(EngineError):
    """A tensor or setting of the checkpoint is missing, unexpected or of the wrong shape."""


class SelfTestFailed(EngineError):
    """A row is not finite or depends on its company, or all texts of a query have one score."""
