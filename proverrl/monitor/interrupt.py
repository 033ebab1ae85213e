"""Ctrl-C and SIGTERM: the first lets what runs end in good order, a second Ctrl-C ends at once.

Flows in: work on the event loop; what to do first; what to say. Flows out: the work's result, or a
``StoppedError``. Not handled here: what is saved (``proverrl.loops``), signals that were ignored
from the start, as a shell does for its background.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TypeVar

from proverrl.errors import StoppedError
from proverrl.monitor.console import LivePanel

T = TypeVar("T")

EXIT_INTERRUPTED = 128 + signal.SIGINT
_WORDS = {
    signal.SIGINT: "Ctrl-C: finishing what is under way; press it again to end at once",
    signal.SIGTERM: "SIGTERM: finishing what is under way",
}


def end_at_once(line: str) -> NoReturn:
    """Say ``line`` and end this process; verifiers end with it. Waits for no thread longer than the
    drawing of a panel may take, so that a signal handler may call it."""
    LivePanel.abandon_all()
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{line}\n".encode())
    os._exit(EXIT_INTERRUPTED)


@contextmanager
def ctrl_c_while_asleep() -> Iterator[Callable[[float], None]]:
    """Ctrl-C in the block raises KeyboardInterrupt in the sleep that is given, and nowhere else:
    rich writes a panel again whose writing was interrupted."""
    pressed = asleep = False

    def take(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        if asleep:
            raise KeyboardInterrupt

    def sleep(seconds: float) -> None:
        nonlocal asleep
        asleep = True
        try:
            if pressed:
                raise KeyboardInterrupt
            time.sleep(seconds)
        finally:
            asleep = False

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield time.sleep
        return
    before = signal.signal(signal.SIGINT, take)
    try:
        yield sleep
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_at_once(how_to_go_on: str) -> Iterator[None]:
    """Ctrl-C ends the block where it stands, until ``stop_on_signals`` takes the key over: for the
    set-up of a run. By itself an event loop only cancels its task, which has no effect before the
    set-up is done. Raises StoppedError; the message is ``interrupted; how_to_go_on``."""

    def take(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, take)
    try:
        yield
    except KeyboardInterrupt as error:
        raise StoppedError(f"interrupted; {how_to_go_on}", EXIT_INTERRUPTED) from error
    finally:
        if signal.getsignal(signal.SIGINT) is take:
            signal.signal(signal.SIGINT, before)


@contextmanager
def stop_on_signals(
    begin_to_stop: Callable[[], object],
    describe_unsaved: Callable[[], str],
    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM),
) -> Iterator[None]:
    """In the block the first of ``signals`` is announced and calls ``begin_to_stop``, on the event
    loop; from then on Ctrl-C ends the process at once, with the line of ``describe_unsaved``. A
    ``StoppedError`` that passes gets the exit status that belongs to the signal."""
    loop = asyncio.get_running_loop()
    # Signals reach the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    watched = [each for each in signals if signal.getsignal(each) is not signal.SIG_IGN]
    received: list[signal.Signals] = []

    def end(number: int, frame: FrameType | None) -> None:
        end_at_once(describe_unsaved())

    def take(which: signal.Signals) -> None:
        if received:
            return
        received.append(which)
        pressed: list[int] = []
        if signal.SIGINT in watched:
            loop.remove_signal_handler(signal.SIGINT)
            signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
        # Stands above a live panel: rich takes what is printed while it draws. Whoever presses the
        # key again in the middle of it still sees the whole panel.
        print(_WORDS[which], file=sys.stderr, flush=True)
        if signal.SIGINT in watched:
            # Not on the event loop, which may be busy, or be waiting for a thread at its end.
            signal.signal(signal.SIGINT, end)
            if pressed:
                end_at_once(describe_unsaved())
        begin_to_stop()

    for each in watched:
        loop.add_signal_handler(each, take, each)
    try:
        yield
    except StoppedError as error:
        if received:
            error.exit_status = 128 + received[0]
        raise
    finally:
        for each in watched:
            loop.remove_signal_handler(each)
        if received and signal.SIGINT in watched:
            # Threads are still waited for until the process is gone.
            signal.signal(signal.SIGINT, end)


async def run_interruptible(work: Coroutine[Any, Any, T], *, how_to_go_on: str) -> T:
    """The result of ``work``; Ctrl-C cancels it, which leaves what it had found out. Raises
    StoppedError: it was interrupted; the message is ``interrupted; how_to_go_on``."""
    task = asyncio.ensure_future(work)

    line = f"ended at once; {how_to_go_on}"
    with stop_on_signals(task.cancel, lambda: line, (signal.SIGINT,)):
        try:
            return await task
        except asyncio.CancelledError as error:
            raise StoppedError(f"interrupted; {how_to_go_on}", EXIT_INTERRUPTED) from error
