"""A server as a process: it listens, and ends in order.

Flows in: settings. Flows out: nothing before a signal comes. SIGTERM and Ctrl-C stop listening;
what was accepted is judged and answered, then the verifiers end. A second Ctrl-C ends at once.
Not handled here: what is answered (``app``).
"""

from __future__ import annotations

import hashlib
import math
import resource
import signal
import socket
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from proverrl.errors import ToolchainError, UsageError
from proverrl.lang import find_language, list_languages
from proverrl.lang.open import open_router
from proverrl.serve.app import make_app
from proverrl.serve.kimina import make_kimina_routes
from proverrl.serve.protocol import limit_headers
from proverrl.serve.settings import ServeSettings
from proverrl.verifier.cache import CachedVerifier
from proverrl.verifier.remote_server import LanguageAbout
from proverrl.verifier.router import RoutedVerifier

_BACKLOG = 4096
_KEEP_ALIVE_SECONDS = 75
_DESCRIPTORS = 2**16
_READING_SECONDS = 60
"""The time for clients to read their last answers, at the end."""


def serve(settings: ServeSettings, say: Callable[[str], None]) -> None:
    """Answer requests until a signal comes. Raises ``UsageError``: the port cannot be had, or the
    cache cannot be used; ``ToolchainError``: no language can be judged here."""
    router = open_router(settings.options)
    about = describe_languages(router, settings, say)
    verifier = CachedVerifier(router, settings.cache, identify=router.identify)
    config = configure(make_app(settings, verifier, about, make_kimina_routes), settings)
    bound = listen(config)
    host, port = bound.getsockname()[:2]
    host = f"[{host}]" if ":" in host else host
    say(f"listening on http://{host}:{port}, {settings.options.workers} workers for each language")
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn handles them while it runs, and raises them once more at its end.
        signal.signal(number, signal.SIG_IGN)
    # A connection is a descriptor, and so are the pipes of workers.
    few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(few, min(most, _DESCRIPTORS)), most))
    uvicorn.Server(config).run(sockets=[bound])


def configure(app: Starlette, settings: ServeSettings) -> uvicorn.Config:
    """The settings of uvicorn for an application."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        # Under uvloop the end of a worker goes unnoticed until its deadline.
        loop="asyncio",
        http=limit_headers(settings.read_seconds),
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        # All accepted candidates are judged by then; a client that does not read must not keep us.
        timeout_graceful_shutdown=math.ceil(3 * settings.deadline_seconds) + _READING_SECONDS,
        access_log=False,
        log_level="warning",
        server_header=False,
        # Else a client could take the address, and so the turns, of any other.
        proxy_headers=False,
    )


def listen(config: uvicorn.Config) -> socket.socket:
    """The socket of a server; clients may connect at once. Raises ``UsageError``: it cannot be
    had."""
    try:
        bound = config.bind_socket()
    except SystemExit as error:
        raise UsageError(
            f"{config.host}:{config.port} cannot be listened on; choose another --port"
        ) from error
    # An answer is written in two parts, and the second must not wait for the first one's receipt:
    # 40 ms. Connections have this from the socket that they come through.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound.listen(config.backlog)
    return bound


def describe_languages(
    router: RoutedVerifier, settings: ServeSettings, say: Callable[[str], None]
) -> dict[str, LanguageAbout]:
    """The languages judged here; ``say`` hears of each. Raises ``ToolchainError``: none is."""
    found = {}
    for language in [each.name for each in list_languages()]:
        try:
            backend = router.open_backend(language)
        except ToolchainError as error:
            say(f"{language} is not served: {error}")
            continue
        say(f"{language}: {backend.described}")
        conditions = hashlib.sha256(backend.salt.encode()).hexdigest()
        options = settings.options
        found[language] = LanguageAbout(
            backend.toolchain,
            conditions,
            rlimit=options.limits.rlimit,
            states=options.trace_states,
            # No client can ask for more where nothing is confirmed.
            confirm=options.confirm if find_language(language).confirms else "proved",
            memory_mb=options.memory_mb,
            max_text=settings.max_text,
            deadline_seconds=settings.deadline_seconds,
        )
    if not found:
        raise ToolchainError("no language can be judged here; `proverrl doctor` names the remedies")
    return found
