"""A headless Chromium driven over the WebDriver protocol, with the standard library alone.

Used by the tests that open the report; they are skipped where chromium is not installed.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or ""
CHROMEDRIVER = shutil.which("chromedriver") or ""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """One browser window of a given size in CSS pixels."""

    def __init__(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._profile = tempfile.mkdtemp()
        self._driver = subprocess.Popen(
            [CHROMEDRIVER, f"--port={port}", "--silent"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._base = f"http://127.0.0.1:{port}"
        self._wait_until_ready()
        options = {
            "binary": CHROMIUM,
            "args": [*FLAGS, f"--user-data-dir={self._profile}"],
        }
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._call("/session", {"capabilities": {"alwaysMatch": capabilities}})
        self._base += f"/session/{answer['sessionId']}"
        self.command(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, path: Path, *, fragment: str = "") -> None:
        self._call("/url", {"url": "about:blank"})
        self._call("/se/log", {"type": "performance"})
        address = path.resolve().as_uri() + (f"#{fragment}" if fragment else "")
        self._call("/url", {"url": address})

    def run(self, script: str) -> Any:
        """The value that the script returns."""
        return self._call("/execute/sync", {"script": script, "args": []})

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        """One DevTools command."""
        return self._call("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def console(self) -> list[str]:
        """What the page wrote to the console, errors of the browser included."""
        return [str(entry["message"]) for entry in self._call("/se/log", {"type": "browser"})]

    def requested(self) -> list[str]:
        """Addresses of every request that was sent, in order."""
        entries = self._call("/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            str(message["params"]["request"]["url"])
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        answer = self.command(
            "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": whole}
        )
        path.write_bytes(base64.b64decode(answer["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._call("", None, method="DELETE")
        finally:
            self._driver.terminate()
            self._driver.wait()
            shutil.rmtree(self._profile, ignore_errors=True)

    def _wait_until_ready(self) -> None:
        for _ in range(100):
            try:
                if self._call("/status", None, method="GET")["ready"]:
                    return
            except urllib.error.URLError:
                time.sleep(0.1)
        raise RuntimeError("chromedriver did not start")

    def _call(self, path: str, body: Any, *, method: str = "POST") -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._base + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]
