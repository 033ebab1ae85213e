"""Search at inference: functions that take functions, on a budget of verifier calls."""
