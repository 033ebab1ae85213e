"""Publishes a run's policy on a Hugging Face hub.

Flows in: a finished run, a repository's id, a card. Flows out: one commit with the files of
``RUN/policy`` and the card, which also deletes the weights of an earlier push. The hub and the
token are those of huggingface_hub (``HF_ENDPOINT``, ``HF_TOKEN`` or what ``hf auth login`` stored).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from proverrl.errors import RunError, UsageError
from proverrl.policy.lora import ADAPTER_FOLDER

if TYPE_CHECKING:
    from huggingface_hub import CommitOperationAdd

CARD = "README.md"
_SUFFIXES = {".json", ".safetensors", ".model", ".txt", ".jinja", ".md"}


def check_repo_id(repo_id: str) -> None:
    """Raise ``UsageError`` for what is no ``OWNER/NAME`` to the hub."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise UsageError(f"{repo_id!r}: write OWNER/NAME ({error})") from error
    if "/" not in repo_id:
        raise UsageError(f"{repo_id!r}: write OWNER/NAME (the owner is missing)")


def list_policy_files(run: Path) -> dict[str, Path]:
    """The files of a finished run's policy by their names on the hub. Raises ``RunError``: there
    is no finished policy, a file is a link, or something cannot be read."""
    folder = run / "policy"
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise RunError(
            f"{run} holds no finished policy (policy/config.json and weights); finish the run with "
            f"`proverrl train --resume {run}`"
        )
    found = sorted(folder.rglob("*"))
    if links := [path for path in (folder, *found) if path.is_symlink()]:
        raise RunError(f"{links[0]} is a link, and only files of the run are published; remove it")
    if others := [path for path in found if not _is_known(path.relative_to(folder), path)]:
        raise RunError(f"{others[0]} is no file of a policy, and would be published; remove it")
    # A folder that cannot be read would be passed over.
    if closed := [path for path in found if not os.access(path, os.R_OK)]:
        raise RunError(f"{closed[0]} cannot be read; check its permissions")
    files = {path.relative_to(folder).as_posix(): path for path in found if not path.is_dir()}
    files.pop(CARD, None)
    return files


def _is_known(name: Path, path: Path) -> bool:
    """True if transformers, tokenizers or peft write such a file into a policy's folder."""
    if path.is_dir():
        return name == Path(ADAPTER_FOLDER)
    inside = name.parent in (Path(), Path(ADAPTER_FOLDER))
    return inside and path.is_file() and name.suffix in _SUFFIXES and name.name[0] != "."


def publish(
    files: dict[str, Path], card: str, repo_id: str, *, private: bool, branch: str | None = None
) -> str:
    """Upload the files and the card as one commit, into a repository that is made if it is not
    there; returns its address. Weights on the branch (``*.safetensors*``, ``adapter/*``) that are
    not among the files are deleted in that commit, since a loader would take a whole file of an
    earlier push before the shards of this one. Raises ``UsageError``: no token, a refusal by the
    hub, no hub; ``RunError``: a file cannot be read."""
    # Here, because the hub's client is a second of imports that no other command needs.
    import httpx2
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError

    if not get_token():
        raise UsageError(
            "the hub needs a token that may write: set HF_TOKEN, or run `hf auth login`"
        )
    api = HfApi()
    place = f"{api.endpoint}/{repo_id}"
    added = [_open_addition(name, path) for name, path in files.items()]
    added.append(CommitOperationAdd(CARD, card.encode()))
    try:
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.repo_info(repo_id).private:
            raise UsageError(
                f"{place} is there and public; make it private on the hub, or leave --private out"
            )
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        old = [name for name in api.list_repo_files(repo_id, revision=branch) if _is_weights(name)]
        deleted = [CommitOperationDelete(name) for name in old if name not in files]
        api.create_commit(
            repo_id,
            [*deleted, *added],
            commit_message="Upload a policy with its card",
            revision=branch,
        )
    except HfHubHTTPError as error:
        status = error.response.status_code
        remedies = {
            401: "the token was not accepted, or the repository is not there; check HF_TOKEN",
            403: "the token may not write there; check the owner's name, and the token's rights",
            404: "there is no such repository or owner, or the token may not see it",
        }
        said = str(error.server_message or error).partition("\n")[0]
        remedy = remedies.get(status, "try again later, or see what the hub says")
        raise UsageError(f"{place}: the hub answered {status} ({said}): {remedy}") from error
    except (httpx2.HTTPError, OSError, RuntimeError) as error:
        # The client reports what went wrong with a large file as the cause of a RuntimeError.
        cause = error.__cause__ if isinstance(error, RuntimeError) else error
        if isinstance(cause, OSError) and cause.filename is not None:
            raise RunError(f"{cause.filename} cannot be read: {cause.strerror}") from error
        if not isinstance(cause, (httpx2.HTTPError, OSError)):
            raise
        raise UsageError(
            f"{place}: the hub cannot be reached ({cause}); check the network and HF_ENDPOINT"
        ) from error
    return place


def _open_addition(name: str, path: Path) -> CommitOperationAdd:
    from huggingface_hub import CommitOperationAdd

    if not path.is_file():
        raise RunError(f"{path} is not there, or is no file; push the run again")
    try:
        return CommitOperationAdd(name, path)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: the hub takes no file of this name: {error}") from error


def _is_weights(name: str) -> bool:
    """True if a file on the hub is of the kind that a push writes: weights, or an adapter."""
    folder, _, last = name.rpartition("/")
    return (not folder and ".safetensors" in last) or name.startswith(f"{ADAPTER_FOLDER}/")
