"""Publishes a run's policy on a Hugging Face hub.

Flows in: a finished run, a repository's id, a card. Flows out: one commit with the files of
``RUN/policy`` and the card, and nothing else. The hub and the token are those of huggingface_hub
(``HF_ENDPOINT``, ``HF_TOKEN`` or what ``hf auth login`` stored).
"""

from __future__ import annotations

from pathlib import Path

from proverrl.errors import RunError, UsageError

CARD = "README.md"


def list_policy_files(run: Path) -> dict[str, Path]:
    """The files of a finished run's policy by their names on the hub. Raises ``RunError``: there
    is no finished policy, or a file is a link."""
    folder = run / "policy"
    if not (folder / "config.json").is_file() or not any(folder.glob("*.safetensors")):
        raise RunError(
            f"{run} holds no finished policy (policy/config.json and weights); finish the run with "
            f"`proverrl train --resume {run}`"
        )
    found = sorted(path for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    if links := [path for path in found if path.is_symlink()]:
        raise RunError(f"{links[0]} is a link, and only files of the run are published; remove it")
    files = {path.relative_to(folder).as_posix(): path for path in found}
    files.pop(CARD, None)
    return files


def publish(
    files: dict[str, Path], card: str, repo_id: str, *, private: bool, branch: str | None = None
) -> str:
    """Upload the files and the card as one commit, into a repository that is made if it is not
    there; returns its address. Raises ``UsageError``: no token, a refusal by the hub, no hub."""
    # Here, because the hub's client is a second of imports that no other command needs.
    import httpx2
    from huggingface_hub import CommitOperationAdd, HfApi, get_token
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    if not get_token():
        raise UsageError(
            "the hub needs a token that may write: set HF_TOKEN, or run `hf auth login`"
        )
    api = HfApi()
    place = f"{api.endpoint}/{repo_id}"
    operations = [CommitOperationAdd(name, path) for name, path in files.items()]
    operations.append(CommitOperationAdd(CARD, card.encode()))
    try:
        api.create_repo(repo_id, private=private or None, exist_ok=True)
        if private and not api.repo_info(repo_id).private:
            raise UsageError(
                f"{place} is there and public; make it private on the hub, or leave --private out"
            )
        if branch is not None:
            api.create_branch(repo_id, branch=branch, exist_ok=True)
        api.create_commit(
            repo_id, operations, commit_message="Upload a policy with its card", revision=branch
        )
    except HFValidationError as error:
        raise UsageError(f"{repo_id!r}: write OWNER/NAME ({error})") from error
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
    except (httpx2.HTTPError, OSError) as error:
        raise UsageError(
            f"{place}: the hub cannot be reached ({error}); check the network and HF_ENDPOINT"
        ) from error
    return place
