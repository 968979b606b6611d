"""
EngineError
├── CheckpointError   the files do not hold the model they announce
├── SelfTestFailed    the engine computes, but not what it should
└── OutOfMemory       a step asked for more memory than the device has; a smaller one may fit
DeviceLost            the device answers nothing any more: only a new process gets it back
"""


class EngineError(Exception):
    """What the engine cannot do, in one sentence."""


class CheckpointError(EngineError):
    """A tensor or setting of the checkpoint is missing, unexpected or of the wrong shape."""


class SelfTestFailed(EngineError):
    """A row is not finite or depends on its company, or all texts of a query have one score."""


class OutOfMemory(EngineError):
    """The step did nothing; the engine goes on. Half of its sequences may fit."""


class DeviceLost(Exception):
    """The device's context is broken (an illegal access, a failed assertion, a hardware fault).

    Every further call would fail too, so this is for the process, not for a batch.
    """
