"""Threads that take turns share what they have freed."""

import ctypes
import re
import subprocess
import sys

import pytest

_COUNT = """
import ctypes, threading
from proverrl.concurrency import give_back_freed_memory

{call}
threads = [threading.Thread(target=lambda: [bytes(100_000) for _ in range(50)]) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
libc = ctypes.CDLL(None)
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def count_heaps(call: str) -> int:
    command = [sys.executable, "-c", _COUNT.format(call=call)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return len(re.findall("<heap nr=", told))


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="no glibc")
def test_all_threads_use_one_heap() -> None:
    assert count_heaps("") > 1
    assert count_heaps("give_back_freed_memory()") == 1
