"""Rewards for trainers that ask a remote reward model over HTTP: OpenRLHF and slime.

Flows in: answers of a policy, each with its problem as the label. Flows out: 1 for a proof, 0 for
what was judged to be none. These trainers know no answer without a reward. A request with an
answer that could not be judged gets 503, which both take as a reason to ask again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, get_args

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, FailFast, Field, TypeAdapter, ValidationError

from proverrl.config import LayoutName
from proverrl.errors import ProblemError
from proverrl.integrations.answers import Score, find_candidate, parse_problem, rate
from proverrl.problems.inputs import Submission, Unusable
from proverrl.serve.app import add_route, answer_all, parse
from proverrl.serve.desk import Desk, Refusal
from proverrl.types import Candidate, Problem

_LAYOUT = TypeAdapter[LayoutName](LayoutName)


_Texts = Annotated[list[str], FailFast()]


class OpenRlhfRequest(BaseModel):
    """OpenRLHF's remote reward model: each query is its prompt and the answer after it."""

    query: _Texts = Field(min_length=1)
    prompts: _Texts
    labels: _Texts


class SlimeRequest(BaseModel):
    """slime's ``remote_rm``: one answer."""

    prompt: Any = None
    response: str
    label: str


def add_reward_routes(app: FastAPI, desk: Desk) -> None:
    """``/reward/openrlhf`` and ``/reward/slime``, with ``?layout=NAME&end=TOKEN`` in the URL."""
    named = {"in": "query", "required": False}
    layouts = {"type": "string", "enum": list(get_args(LayoutName)), "default": "plain"}
    ends = {"type": "array", "items": {"type": "string"}}
    extra = {
        "parameters": [
            named | {"name": "layout", "schema": layouts},
            named | {"name": "end", "schema": ends},
        ]
    }
    add_route(app, desk, ["/reward/openrlhf"], openrlhf, OpenRlhfRequest, extra)
    add_route(app, desk, ["/reward/slime"], slime, SlimeRequest, extra)


async def openrlhf(desk: Desk, request: Request, client: str) -> Response:
    """Score answers, as OpenRLHF asks a remote reward model."""
    asked = await parse(OpenRlhfRequest, await desk.read(request))
    if not len(asked.query) == len(asked.prompts) == len(asked.labels):
        raise _fault(["query"], "query, prompts and labels must be of one length")
    read = _make_reader(request)
    room = desk.reserve(len(asked.query), client)

    async def score(number: int, query: str, prompt: str, label: str) -> Score:
        if not query.startswith(prompt):
            raise _fault(["query", number], "does not begin with its prompt")
        return await _score(desk, client, read, ["labels", number], label, query[len(prompt) :])

    def shape(scores: list[Score]) -> Any:
        rewards = [_require_reward(score) for score in scores]
        return {"rewards": rewards, "scores": rewards, "extra_logs": {"proved": rewards}}

    rows = zip(asked.query, asked.prompts, asked.labels, strict=True)
    works = [partial(score, number, *row) for number, row in enumerate(rows)]
    return await answer_all(request, room, works, shape)


async def slime(desk: Desk, request: Request, client: str) -> Response:
    """Score an answer, as slime asks a remote reward model; the answer is a number."""
    asked = await parse(SlimeRequest, await desk.read(request))
    read = _make_reader(request)
    room = desk.reserve(1, client)
    work = partial(_score, desk, client, read, ["label"], asked.label, asked.response)
    return await answer_all(request, room, [work], lambda rows: _require_reward(rows[0]))


_Read = Callable[[Problem, str], Candidate | Score]


def _make_reader(request: Request) -> _Read:
    """The reader of answers that the URL asks for. Raises ``Refusal``."""
    if unknown := sorted(set(request.query_params) - {"layout", "end"}):
        said = f"unknown {unknown[0][:40]!r} in the URL; known are: layout, end"
        raise Refusal(422, said)
    ends = request.query_params.getlist("end")
    given = request.query_params.get("layout", "plain")
    try:
        layout = _LAYOUT.validate_python(given)
    except ValidationError:
        known = ", ".join(get_args(LayoutName))
        said = f"unknown layout {given[:40]!r} in the URL; known are: {known}"
        raise Refusal(422, said) from None

    def read(problem: Problem, answer: str) -> Candidate | Score:
        for end in ends:
            answer = answer.removesuffix(end)
        return find_candidate(problem, answer, layout)

    return read


async def _score(
    desk: Desk, client: str, read: _Read, place: Sequence[str | int], label: str, answer: str
) -> Score:
    try:
        problem = parse_problem(label)
    except ProblemError as error:
        raise _fault(place, str(error)) from None
    candidate = read(problem, answer)
    if isinstance(candidate, Score):
        return candidate
    found = await desk.judge(
        Submission(problem.id, candidate),
        deadline_seconds=desk.settings.deadline_seconds,
        client=client,
    )
    if not isinstance(found, Unusable):
        return rate(found)
    if problem.language not in desk.about:
        raise _fault(place, f"{found.reason}; start the server where it is installed")
    if found.kind == "no-backend":
        raise Refusal(503, found.reason, {"Retry-After": "1"})
    raise _fault(place, found.reason)


def _require_reward(score: Score) -> float:
    """Raises ``Refusal`` once all answers of a request are there, so that those that are known
    cost nothing when it is asked again."""
    if score.reward is None:
        raise Refusal(503, f"not judged: {score.status} ({score.said})", {"Retry-After": "1"})
    return score.reward


def _fault(place: Sequence[str | int], said: str) -> Refusal:
    return Refusal(422, [{"type": "value_error", "loc": ["body", *place], "msg": said[:300]}])
