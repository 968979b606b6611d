"""What becomes of memory that a step gives back."""

import ctypes
import os
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # parameters of mallopt(3)
_HEAP = 64 << 20  # of a thread: what is larger fits into none and has pages of its own
_UNUSED = 256 << 20  # more than that, free at the end of all, goes back to the system


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed, for the next step; False where that is not glibc.

    By default large blocks go back to the system at once, and the next step is given fresh pages,
    each behind a fault that zeroes it: 1,500 a step of 972 tokens of a small model, an eighth of
    its time. Where the operator has set malloc by variables, that stands.
    """
    if platform.libc_ver()[0] != "glibc" or _is_set_by_operator():
        return False
    set_to = ctypes.CDLL(None).mallopt
    # With the padding a thread's second heap is not given back whenever it is empty.
    parameters = ((_MMAP_THRESHOLD, _HEAP), (_TRIM_THRESHOLD, _UNUSED), (_TOP_PAD, _HEAP))
    return all(set_to(parameter, value) for parameter, value in parameters)


def _is_set_by_operator() -> bool:
    return "GLIBC_TUNABLES" in os.environ or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
