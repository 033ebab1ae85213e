"""The few addresses of a Hugging Face hub that a push and a download ask, on a port of this
machine."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_good"
SHA = "0" * 40


@dataclass
class Hub:
    """``files`` by repository, branch and name; ``asked`` are the requests in order."""

    url: str = ""
    owners: tuple[str, ...] = ("me",)
    public: set[str] = field(default_factory=set)
    files: dict[tuple[str, str], dict[str, bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        """Status and value (bytes of a file, or JSON) of one request."""
        path = path.partition("?")[0]
        self.asked.append(f"{method} {path}")
        parts = path.strip("/").split("/")
        if "resolve" in parts:
            stored = self.files.get(("/".join(parts[:2]), "main"), {})
            name = "/".join(parts[4:])
            return (200, stored[name]) if name in stored else (404, {"error": "no such file"})
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid username or password."}
        if parts == ["api", "validate-yaml"]:
            return 200, {"errors": [], "warnings": []}
        if parts == ["api", "repos", "create"]:
            given = json.loads(body)
            owner = given.get("organization") or "me"
            if owner not in self.owners:
                return 403, {"error": f"You don't have the rights for {owner}"}
            name = f"{owner}/{given['name']}"
            if (name, "main") in self.files:
                return 409, {"url": f"{self.url}/{name}", "error": "already there"}
            self.files[name, "main"] = {}
            return 200, {"url": f"{self.url}/{name}"}
        name, what = "/".join(parts[2:4]), parts[4:5]
        if (name, "main") not in self.files:
            return 404, {"error": "Repository not found"}
        if what == ["branch"]:
            # As on the hub, a new branch begins with the files of main.
            self.files.setdefault((name, parts[5]), dict(self.files[name, "main"]))
            return 200, {}
        if what == ["tree"]:
            stored = self.files[name, parts[5]]
            return 200, [
                {"type": "file", "path": one, "size": len(raw), "oid": SHA}
                for one, raw in stored.items()
            ]
        if what == ["preupload"]:
            files = [
                {"path": one["path"], "uploadMode": "regular", "shouldIgnore": False}
                for one in json.loads(body)["files"]
            ]
            return 200, {"files": files}
        if what == ["commit"]:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    content = base64.b64decode(line["value"]["content"])
                    self.files[name, parts[5]][line["value"]["path"]] = content
                elif line["key"] == "deletedFile":
                    del self.files[name, parts[5]][line["value"]["path"]]
            return 200, {"commitUrl": f"{self.url}/{name}/commit/{SHA}", "commitOid": SHA}
        siblings = [{"rfilename": one} for one in self.files[name, "main"]]
        private = name not in self.public
        return 200, {"id": name, "sha": SHA, "private": private, "siblings": siblings}


@contextmanager
def open_hub() -> Iterator[Hub]:
    """A hub that answers as long as the block runs."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            token = self.headers.get("authorization", "")
            status, value = hub.answer(self.command, self.path, body, token)
            raw = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.send_header("content-type", "application/json")
            if isinstance(value, bytes):
                self.send_header("etag", f'"{hashlib.sha1(raw).hexdigest()}"')
                self.send_header("x-repo-commit", SHA)
            elif status == 404 and "resolve" in self.path:
                self.send_header("x-error-code", "EntryNotFound")
            elif status == 404:
                self.send_header("x-error-code", "RepoNotFound")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(raw)

        do_HEAD = do_POST = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
