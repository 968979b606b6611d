"""What becomes of memory that a step gives back."""

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # parameters of mallopt(3)
_LARGEST = 32 << 20  # what is larger has pages of its own; older versions take no more than that
_UNUSED = 256 << 20  # more than that, free at the end of all, goes back to the system
_HEAP = 64 << 20  # of a thread


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed, for the next step; False where that is not glibc.

    By default large blocks may go back to the system at once, and the next step is given fresh
    pages, each behind a fault that zeroes it: up to 2,000 a step of 2,048 tokens of a small model,
    a twentieth of its time.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    set_to = ctypes.CDLL(None).mallopt
    # With the padding a thread's second heap is not given back whenever it is empty.
    parameters = ((_MMAP_THRESHOLD, _LARGEST), (_TRIM_THRESHOLD, _UNUSED), (_TOP_PAD, _HEAP))
    taken = [set_to(parameter, value) for parameter, value in parameters]
    return all(taken)
