"""Lessons besides whole proofs: to go on from the middle of one, and to mend one.

Flows in: the references of a run and a verifier. Flows out: pairs of token ids.

- Resuming: a policy that continues a kept prefix, as searches ask it to, is shown the prefix with
  the goals behind it in a comment (DeepSeek-Prover-V1.5, Xin et al. 2024, arXiv 2408.08152). The
  rest of the proof is what it learns, so that it serves single tactics too: they end with the line.
- Correcting: a failed proof and the verifier's messages, then the proof (Goedel-Prover-V2, Lin et
  al. 2025, arXiv 2508.03613; Leanabell-Prover-V2, Ji et al. 2025, arXiv 2507.08649). Where those
  have another model's repairs, a reference is broken here, so that its repair is known.

A policy that never saw such a prompt cannot answer it. Not handled here: training (``supervised``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from proverrl.config import RolloutConfig
from proverrl.lang import find_language
from proverrl.lang.open import open_configured
from proverrl.lang.records import Prefix, SegmentFn
from proverrl.policy.transformers import TransformersPolicy
from proverrl.problems.prompt import render_body
from proverrl.run.pairs import Pair, PairSource, count_before
from proverrl.run.session import Session
from proverrl.search.proposals import ask_again, encode, render_prefix
from proverrl.seeds import derive_seed
from proverrl.types import Candidate, Problem, Verdict
from proverrl.verifier.base import verify_all

_WORD = re.compile(r"[A-Za-z_][\w']*|[0-9]+")
_MAX_TRIES = 8
"""Copies that are drawn for one broken one: some are the same, and a few are still proofs."""


async def teach_all(session: Session) -> list[PairSource]:
    """Resuming and corrections, as far as ``[warm_start]`` asks for them."""
    return [
        *await teach_resuming(session),
        *await teach_correcting(session),
    ]


async def teach_resuming(session: Session) -> list[PairSource]:
    """For each reference whose language has states, the rest of it after ``resume_places`` of its
    lines, drawn at random. The verifier judges the lines before, as in a search: what it keeps of
    them, with the state there, is what the policy is shown."""
    config, policy = session.config, session.policy
    num_places = config.warm_start.resume_places
    if not num_places or not config.warm_start.steps:
        return []
    rng = random.Random(derive_seed(config.seed, "resume"))
    asked: list[tuple[SegmentFn, Candidate, str]] = []
    for problem, body in session.problems.references:
        searching = find_language(problem.language).searching
        if searching is not None and problem.kind in searching.kinds:
            segment = searching.segment(config.search.states)
            ends = [match.start() for match in re.finditer("\n", body.rstrip())]
            drawn = rng.sample(ends, min(num_places, len(ends)))
            asked += [(segment, Candidate(problem, body[:end]), body) for end in drawn]
    session.monitor.phase("goals of the references", f"{len(asked)} places")
    verdicts = await _judge(session, [candidate for _, candidate, _ in asked], trace_states=True)
    found: dict[tuple[str, str], tuple[Candidate, Prefix]] = {}
    for (segment, candidate, body), verdict in zip(asked, verdicts, strict=True):
        problem = candidate.problem
        segments = segment(candidate, verdict) if verdict.status.judged else ()
        if segments:
            prefix = Prefix(segments[-1].text, segments[-1].state)
            found[problem.id, prefix.text] = Candidate(problem, body), prefix
    return [resume_source(policy, proof, prefix) for proof, prefix in found.values()]


def resume_source(policy: TransformersPolicy, proof: Candidate, prefix: Prefix) -> PairSource:
    """The rest of a proof, after its beginning as a search shows it."""

    @cache
    def make() -> Pair:
        opening, comment = render_prefix(policy, proof.problem, prefix)
        rest = proof.body[len(prefix.text) :].removeprefix("\n")
        shown = prefix.text + (comment or "\n") + rest
        whole = render_body(proof.problem, shown, policy.layout)
        shown_ids = encode(policy.tokenizer, opening)
        rest_ids = encode(policy.tokenizer, whole.removeprefix(opening))
        prompt = policy.prompt(proof.problem).token_ids + shown_ids
        return Pair(prompt, (*rest_ids, policy.end_id), len(shown_ids))

    return make


async def teach_correcting(session: Session) -> list[PairSource]:
    """For each reference up to ``warm_start.corrections`` broken copies that the verifier refused,
    each with what it said and the reference as the answer."""
    config = session.config
    return [
        correct_source(session.policy, candidate, verdict, proof, config.rollout)
        for candidate, proof, verdict in await _break_references(session)
    ]


async def _break_references(session: Session) -> list[tuple[Candidate, str, Verdict]]:
    """Broken copies of each reference that the verifier refused, each with the reference and what
    the verifier said."""
    count = session.config.warm_start.corrections
    if not count or not session.config.warm_start.steps:
        return []
    rng = random.Random(derive_seed(session.config.seed, "corrections"))
    asked: list[Candidate] = []
    proofs: list[str] = []
    for problem, body in session.problems.references:
        broken = {break_body(problem, body, rng) for _ in range(_MAX_TRIES * count)} - {body}
        for text in rng.sample(sorted(broken), min(count, len(broken))):
            asked.append(Candidate(problem, text))
            proofs.append(body)
    session.monitor.phase("broken references", f"{len(asked)} to be refused")
    verdicts = await _judge(session, asked)
    return [
        (candidate, proof, verdict)
        for candidate, proof, verdict in zip(asked, proofs, verdicts, strict=True)
        if verdict.status.judged and not verdict.proved
    ]


def correct_source(
    policy: TransformersPolicy,
    failed: Candidate,
    verdict: Verdict,
    proof: str,
    settings: RolloutConfig,
) -> PairSource:
    """A proof, after a failed one and what the policy is told of it."""

    @cache
    def make() -> Pair:
        prompt = ask_again(policy, failed.problem, failed.body, verdict, settings).token_ids
        own = policy.prompt(failed.problem).token_ids
        body = policy.body_ids(failed.problem, proof)
        if prompt[: len(own)] != own:
            return Pair(prompt, body, num_shown=len(prompt))
        before = count_before(policy, failed.problem, own)
        return Pair(prompt, body, num_shown=len(prompt) - len(own), num_before=before)

    return make


def break_body(problem: Problem, body: str, rng: random.Random) -> str:
    """The body with one thing wrong, at random: a line left out, two neighbours exchanged, a name
    or number in place of another that the problem or the body has. Unchanged where that cannot
    be done."""
    lines = body.split("\n")
    ways: list[Callable[[], Sequence[str]]] = [lambda: [_change_word(problem, body, rng)]] * 2
    if len(lines) > 1:
        place = rng.randrange(len(lines) - 1)
        first, second = lines[place : place + 2]
        ways += [
            lambda: [*lines[:place], *lines[place + 1 :]],
            lambda: [*lines[:place], second, first, *lines[place + 2 :]],
        ]
    return "\n".join(rng.choice(ways)())


def _change_word(problem: Problem, body: str, rng: random.Random) -> str:
    language = find_language(problem.language)

    def list_words(text: str) -> list[re.Match[str]]:
        return [
            match
            for match in _WORD.finditer(text)
            if match.group()[0].isdigit() or language.owns_name(match)
        ]

    places = list_words(body)
    if not places:
        return body
    place = rng.choice(places)
    is_number = place.group()[0].isdigit()
    others = {
        match.group()
        for match in list_words(problem.statement) + places
        if match.group()[0].isdigit() == is_number
    }
    if is_number:
        others |= {str(int(place.group()) + 1), str(max(0, int(place.group()) - 1))}
    return body[: place.start()] + rng.choice(sorted(others)) + body[place.end() :]


async def _judge(
    session: Session, candidates: Sequence[Candidate], *, trace_states: bool = False
) -> list[Verdict]:
    config = session.config
    verifier = open_configured(
        config,
        seed=config.seed,
        problems=[candidate.problem for candidate in candidates],
        trace_states=trace_states,
    )
    try:
        deadline = config.pool.deadline_seconds
        return await verify_all(verifier, candidates, deadline_seconds=deadline)
    finally:
        await verifier.aclose()
