"""Rewards for trainers that ask a remote reward model over HTTP: OpenRLHF and slime.

Flows in: answers of a policy, each with its problem as the label. Flows out: 1 for a proof, 0 for
what was judged to be none. These trainers know no answer without a reward, so a request with one
that could not be judged is answered with 503, which both take as a reason to ask again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from proverrl.config import LayoutName
from proverrl.errors import ProblemError
from proverrl.integrations.answers import Score, find_candidate, parse_problem, rate
from proverrl.problems.inputs import Submission, Unusable
from proverrl.serve.app import Handler, add_route, answer_all, parse
from proverrl.serve.desk import Desk, Refusal
from proverrl.types import Problem


class OpenRlhfRequest(BaseModel):
    """OpenRLHF's remote reward model: each query is its prompt and the answer after it."""

    query: list[str] = Field(min_length=1)
    prompts: list[str]
    labels: list[str]


class SlimeRequest(BaseModel):
    """slime's ``remote_rm``: one answer."""

    prompt: Any = None
    response: str
    label: str


def add_reward_routes(app: FastAPI, desk: Desk) -> None:
    """``/reward/openrlhf`` and ``/reward/slime``, with ``?layout=NAME&end=TOKEN`` in the URL."""
    add_route(app, desk, ["/reward/openrlhf"], make_openrlhf(desk), OpenRlhfRequest)
    add_route(app, desk, ["/reward/slime"], make_slime(desk), SlimeRequest)


def make_openrlhf(desk: Desk) -> Handler:
    """The handler of ``/reward/openrlhf``."""

    async def openrlhf(request: Request, lane: str) -> Response:
        """Score answers, as OpenRLHF asks a remote reward model."""
        asked = await parse(OpenRlhfRequest, await desk.read(request))
        if not len(asked.query) == len(asked.prompts) == len(asked.labels):
            raise _fault(["query"], "query, prompts and labels must be of one length")
        works = []
        for number, (query, prompt, label) in enumerate(
            zip(asked.query, asked.prompts, asked.labels, strict=True)
        ):
            if not query.startswith(prompt):
                raise _fault(["query", number], "does not begin with its prompt")
            problem = _read_label(["labels", number], label)
            works.append(partial(_score, desk, request, lane, problem, query[len(prompt) :]))

        def shape(scores: list[Score]) -> Any:
            rewards = [score.reward for score in scores]
            return {"rewards": rewards, "scores": rewards, "extra_logs": {"proved": rewards}}

        return await answer_all(request, desk, works, shape)

    return openrlhf


def make_slime(desk: Desk) -> Handler:
    """The handler of ``/reward/slime``."""

    async def slime(request: Request, lane: str) -> Response:
        """Score an answer, as slime asks a remote reward model; the answer is a number."""
        asked = await parse(SlimeRequest, await desk.read(request))
        work = partial(
            _score, desk, request, lane, _read_label(["label"], asked.label), asked.response
        )
        return await answer_all(request, desk, [work], lambda scores: scores[0].reward)

    return slime


async def _score(desk: Desk, request: Request, lane: str, problem: Problem, answer: str) -> Score:
    for end in request.query_params.getlist("end"):
        answer = answer.removesuffix(end)
    candidate = find_candidate(problem, answer, _find_layout(request))
    if isinstance(candidate, Score):
        return candidate
    found = await desk.judge(
        Submission(problem.id, candidate),
        deadline_seconds=desk.settings.deadline_seconds,
        lane=lane,
    )
    if isinstance(found, Unusable):
        raise _fault(["label"], found.reason)
    score = rate(found)
    if score.reward is None:
        raise Refusal(503, f"not judged: {score.status} ({score.said})", {"Retry-After": "1"})
    return score


def _find_layout(request: Request) -> LayoutName:
    given = request.query_params.get("layout", "plain")
    for name in get_args(LayoutName):
        if name == given:
            return name  # type: ignore[no-any-return]
    known = ", ".join(get_args(LayoutName))
    raise Refusal(422, f"unknown layout {given[:40]!r} in the URL; known are: {known}")


def _read_label(place: Sequence[str | int], label: str) -> Problem:
    try:
        return parse_problem(label)
    except ProblemError as error:
        raise _fault(place, str(error)) from None


def _fault(place: Sequence[str | int], said: str) -> Refusal:
    return Refusal(422, [{"type": "value_error", "loc": ["body", *place], "msg": said[:300]}])
