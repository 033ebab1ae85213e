"""Sessions in /proc."""

import subprocess
import sys
import time

from proverrl.verifier import process_table

PATIENCE_SECONDS = 60.0

# Its name holds what /proc/PID/stat uses to separate fields.
ODD = """
import ctypes, os, subprocess, sys, time
ctypes.CDLL(None).prctl(15, b") Z 1 1\\n1 (", 0, 0, 0)
child = subprocess.Popen(["sleep", "600"], process_group=0)
eaten = bytearray(b"x") * (150 * 2**20)
print(child.pid, flush=True)
time.sleep(600)
"""


def wait_for_no(session: int) -> bool:
    give_up = time.monotonic() + PATIENCE_SECONDS
    while process_table.list_sessions().get(session):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def test_a_session_is_found_measured_and_killed_whole() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ODD], stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        assert sorted(process_table.list_sessions()[process.pid]) == sorted([process.pid, child])
        give_up = time.monotonic() + PATIENCE_SECONDS
        while process_table.measure_session(process.pid) < 150:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        assert 150 <= process_table.measure_session(process.pid) <= 250
        assert process_table.measure_session(child) == 0.0
    finally:
        process_table.kill_session(process.pid)
        process.communicate()
    assert wait_for_no(process.pid)
    process_table.kill_session(process.pid)
