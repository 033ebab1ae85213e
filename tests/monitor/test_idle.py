"""How long each part of a run had nothing to do."""

from __future__ import annotations

from proverrl.run.tally import IdleClock


def test_a_part_is_idle_while_nothing_of_it_is_under_way() -> None:
    now = [0.0]
    usage = IdleClock(lambda: now[0])
    with usage.busy("generator"):
        now[0] = 2.0
        # A second one beside it is the same work.
        with usage.busy("generator"):
            now[0] = 3.0
        with usage.busy("pool"):
            now[0] = 5.0
            idle = usage.take_idle()
            assert (idle["idle_generator_seconds"], idle["idle_pool_seconds"]) == (0.0, 3.0)
            now[0] = 6.5
        now[0] = 7.0
    assert usage.take_idle() == {
        "idle_generator_seconds": 0.0,
        "idle_pool_seconds": 0.5,
        "idle_learner_seconds": 2.0,
    }
