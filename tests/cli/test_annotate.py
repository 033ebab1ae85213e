"""``proverrl annotate``: which hints it finds, and that a file is never damaged."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from proverrl.cli.annotate import make_patch
from proverrl.cli.main import cli
from proverrl.errors import ProblemError, UsageError
from proverrl.jobs.annotate import open_annotating
from proverrl.jobs.hint_files import Annotated, Annotating, HintBudget, HintSource
from proverrl.lang.dafny.audit.strip import strip_hints
from proverrl.lang.dafny.language import DAFNY
from proverrl.lang.records import Prefix
from proverrl.problems.inputs import Submission, read_inputs
from proverrl.search.base import Proposal
from proverrl.search.wiring import Tools
from proverrl.types import (
    ANNOTATE,
    FILE,
    HOLE,
    Candidate,
    Diagnostic,
    Obligations,
    Problem,
    Stage,
    Status,
    Verdict,
)
from proverrl.verifier.base import Verifier
from tests.fake_verifier import FakeVerifier
from tests.shared_verifier import ask_verifier

SUM = """function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }

method Add(n: nat) returns (r: nat)
  ensures r == Sum(n)
{
  r := 0;
  var i := 0;
  while i < n
  {
    i := i + 1;
    r := r + i;
  }
}
"""
WRONG = """
method Wrong(x: int) returns (y: int)
  ensures y > x
{
  y := x;
}
"""
HINTED = SUM.replace(
    "  while i < n\n", "  while i < n\n    invariant i <= n\n    invariant r == Sum(i)\n"
)


def annotate(*words: str) -> Result:
    return CliRunner().invoke(cli, ["annotate", "-j", "1", *words])


def read_one(path: Path) -> Submission:
    (entry,) = read_inputs([str(path)], BytesIO())
    assert isinstance(entry, Submission)
    return entry


def work_on(path: Path, verify: Callable[[Candidate], Verdict], **limits: int) -> Annotating:
    verifier = FakeVerifier(verify)
    return open_annotating(HintSource(read_one(path)), verifier, HintBudget(**limits))


def reject(body: str, *texts: str) -> Verdict:
    """An error at each of these texts of the body."""
    before = [body[: body.index(text)].split("\n") for text in texts]
    places = [(len(lines), len(lines[-1])) for lines in before]
    errors = tuple(Diagnostic("error", "assertion might not hold", *p, *p, *p) for p in places)
    return Verdict(
        Status.REJECTED, errors, obligations=(Obligations("Add", 9, 5),), stage=Stage.PROVER
    )


@pytest.mark.dafny
@pytest.mark.slow
def test_the_failing_loop_gets_its_hints_and_nothing_else_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "sum.dfy"
    path.write_text(SUM + WRONG)
    done = annotate("--check", "sum.dfy")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not proved: Add (line 3), Wrong (line 15) (1 calls" in done.stderr
    done = annotate("sum.dfy", "--json", "--report", "page.html")
    row = json.loads(done.stdout)
    assert (done.exit_code, row["status"]) == (1, "partly")
    assert (row["solved"], row["left"]) == ({"Add": 3}, {"Wrong": 15})
    # Each of the two is needed, and no third.
    assert sorted(hint["text"] for hint in row["hints"]) == [
        "invariant i <= n",
        "invariant r == Sum(i)",
    ]
    assert {(hint["line"], hint["column"]) for hint in row["hints"]} == {(9, 3)}
    assert path.read_text() == SUM + WRONG
    page = Path("page.html").read_text()
    assert "1 partly" in page
    assert '<tr><th scope="row">Wrong</th><td>15</td><td>not proved</td></tr>' in page
    for hint, fate in (("r == Sum(i)", "needed"), ("r == Sum(n)", "does not hold")):
        assert f"invariant {hint}</th><td>9</td><td>{fate}</td>" in page
    Path("page.html").unlink()
    # The patch is one that a tool applies.
    path.write_text(SUM)
    done = annotate("sum.dfy")
    assert done.exit_code == 0
    assert "\n@@ -6,6 +6,8 @@\n" in done.stdout
    (tmp_path / "patch").write_text(done.stdout)
    assert os.system("patch -s -p1 < patch") == 0
    patched = path.read_text()
    path.write_text(SUM)
    path.chmod(0o640)
    done = annotate("--write", "sum.dfy")
    assert done.exit_code == 0
    assert path.read_text() == patched
    assert strip_hints(patched) == (SUM, 2)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [child.name for child in sorted(tmp_path.iterdir())] == ["patch", "sum.dfy"]
    done = annotate("--write", "sum.dfy")
    assert (done.exit_code, path.read_text()) == (0, patched)
    assert "verifies as it is" in done.stderr


def test_bad_input_is_told_in_a_line(tmp_path: Path) -> None:
    lines, broken = tmp_path / "b.jsonl", tmp_path / "c.dfy"
    lines.write_text('{"id": "x", "language": "dafny", "code": "method M() {}"}\n')
    broken.write_bytes(b"method \xff")
    done = annotate(str(lines))
    assert done.exit_code == 2
    assert "x: a line of JSON has no place" in done.stderr
    done = annotate(str(broken))
    assert done.exit_code == 2
    assert "c.dfy: not UTF-8: invalid start byte at byte 7" in done.stderr
    for words, said in (
        ((), "name what is to be annotated"),
        (("-",), "standard input has no place"),
        ((str(tmp_path / "no.dfy"),), "no such file or folder"),
        ((str(broken), "--report", str(tmp_path / "Makefile")), "a name that ends in .html"),
    ):
        with pytest.raises(UsageError, match=said):
            CliRunner().invoke(cli, ["annotate", *words], catch_exceptions=False)


def test_a_file_that_is_refused_before_the_prover_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sum.dfy"
    path.write_text(SUM)
    error = Diagnostic("error", "unresolved identifier: n", 4, 20)
    found = asyncio.run(
        work_on(path, lambda _: Verdict(Status.REJECTED, (error,), stage=Stage.READING)).run()
    )
    assert (found.status, found.text, found.calls) == ("unusable", SUM, 1)
    assert found.message == "rejected: line 4: unresolved identifier: n"
    assert not found.is_proved


def test_what_the_file_is_not_proved_with_is_not_called_solved(tmp_path: Path) -> None:
    path = tmp_path / "sum.dfy"
    path.write_text(SUM)

    def judge(candidate: Candidate) -> Verdict:
        # A verifier that believes the annotated program and not the file.
        if candidate.problem.kind != FILE and "invariant" in candidate.body:
            return Verdict(Status.PROVED, checks=("believes",))
        return reject(candidate.body, "ensures r")

    found = asyncio.run(work_on(path, judge).run())
    assert (found.status, found.text, found.left) == ("open", SUM, {"Add": 3})
    assert not found.hints


LICENCE = "// This notice shall be included in all copies: 0 ≤ x.\n"


FALSE = """function F(x: int): int { x }

lemma Bad(x: int)
  ensures F(x) == x + 1
{
}

method M(n: int) returns (r: int)
  ensures r == F(n) + 1
{
  r := n;
}
"""


def test_what_rests_on_a_lemma_that_is_not_proved_is_not_solved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "false.dfy"
    path.write_text(FALSE)

    def verify(candidate: Candidate) -> Verdict:
        # As for Dafny, a lemma is believed where it is called.
        rests = "  Bad(n);" in candidate.body
        return reject(candidate.body, "ensures F(x)", *([] if rests else ["ensures r"]))

    work = work_on(path, verify)

    async def search(_: Problem, __: dict[str, int]) -> list[str]:
        return ["11:3 Bad(n);"]

    monkeypatch.setattr(work, "_search", search)
    found = asyncio.run(work.run())
    assert (found.status, found.text, found.left) == ("open", FALSE, {"Bad": 3, "M": 8})


@pytest.mark.dafny
@pytest.mark.slow
def test_what_is_included_may_fail_too(tmp_path: Path) -> None:
    (tmp_path / "lib.dfy").write_text(f"\n\n{SUM}{WRONG}".replace("Add", "Below"))
    (tmp_path / "lib2.dfy").write_text(FALSE)
    main = SUM.replace("Sum", "Total")
    (tmp_path / "main.dfy").write_text(f'include "lib.dfy"\ninclude "lib2.dfy"\n{main}')
    done = annotate("--json", str(tmp_path / "main.dfy"))
    row = json.loads(done.stdout)
    assert (done.exit_code, row["status"]) == (1, "partly")
    assert list(row["solved"]) == ["Add"]


def test_too_many_hints_to_be_read_are_halved(tmp_path: Path) -> None:
    path = tmp_path / "sum.dfy"
    path.write_text(SUM)
    asked = []

    needed = {"invariant i <= n\n", "invariant r == Sum(i)\n"}

    def verify(candidate: Candidate) -> Verdict:
        lines = [line.strip() + "\n" for line in candidate.body.split("\n")]
        hints = {line for line in lines if line.startswith("invariant")}
        asked.append(len(hints))
        if len(hints) > 5:
            raise ProblemError("nested more than 60 deep")
        if hints == needed:
            return Verdict(Status.PROVED, obligations=(Obligations("Add", 9, 9),), checks=("all",))
        return reject(candidate.body, "ensures", *(hints - needed))

    found = asyncio.run(work_on(path, verify).run())
    assert max(asked) > 5
    assert (found.status, found.text) == ("solved", HINTED)


def test_a_licence_and_symbols_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "sum.dfy"
    text = LICENCE + SUM.replace("while i < n\n", "while 0 ≤ i && i < n {\n").replace(
        "  {\n    i :=", "    i :="
    )
    path.write_text(text)

    def judge(candidate: Candidate) -> Verdict:
        # The symbol is written otherwise for the verifier, and not in the file.
        hints = ("invariant i <= n", "invariant r == Sum(i)")
        if all(hint in candidate.body for hint in hints) and "assert" not in candidate.body:
            return Verdict(Status.PROVED, checks=("believes",))
        return reject(candidate.body, "ensures r")

    found = asyncio.run(work_on(path, judge).run())
    assert found.status == "solved"
    hints = "\n    invariant i <= n\n    invariant r == Sum(i)\n  {"
    assert found.text == text.replace(" {\n    i :=", f"{hints}\n    i :=")
    column = len("  while 0 ≤ i && i < n ") + 1
    assert {(hint.line, hint.column) for hint in found.hints} == {(9, column)}


def test_a_proof_that_a_seed_does_not_find_is_not_called_solved(tmp_path: Path) -> None:
    path = tmp_path / "sum.dfy"
    path.write_text(SUM)

    def judge(candidate: Candidate, *hints: str) -> Verdict:
        if all(hint in candidate.body for hint in hints) and "assert" not in candidate.body:
            return Verdict(Status.PROVED, checks=("believes",))
        return reject(candidate.body, "ensures r")

    def run(*needed: str) -> Annotated:
        plain = FakeVerifier(lambda c: judge(c, "i <= n", "r == Sum(i)"))
        seeded = FakeVerifier(lambda c: judge(c, "i <= n", "r == Sum(i)", *needed))
        work = open_annotating(HintSource(read_one(path)), plain, HintBudget(), seeded=[seeded])
        return asyncio.run(work.run())

    assert [hint.text for hint in run().hints] == ["invariant i <= n", "invariant r == Sum(i)"]
    # A hint that only the seed needs stays.
    kept = run("0 <= i")
    assert kept.status == "solved"
    assert "invariant 0 <= i" in [hint.text for hint in kept.hints]
    found = run("what is nowhere")
    assert (found.status, found.is_proved) == ("unstable", False)
    assert found.message == "not proved with the solver's random seed 1"


@pytest.mark.dafny
@pytest.mark.slow
def test_what_a_file_includes_is_written_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    below = SUM.replace("Sum", "Total").replace("Add", "AddAll")
    (tmp_path / "a.dfy").write_text(f'include "b.dfy"\n{SUM}')
    (tmp_path / "b.dfy").write_text(below)
    done = CliRunner().invoke(cli, ["annotate", "-j", "2", "--write", "a.dfy", "b.dfy"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a.dfy").read_text() == f'include "b.dfy"\n{HINTED}'
    hinted = HINTED.replace("Sum", "Total").replace("Add", "AddAll")
    assert (tmp_path / "b.dfy").read_text() == hinted


def test_what_a_file_includes_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "wrong.dfy").write_text(WRONG)
    path = tmp_path / "sum.dfy"
    text = f'include "wrong.dfy"\n{SUM}'
    path.write_text(text)

    def judge(candidate: Candidate) -> Verdict:
        wrong = ["ensures y > x"]
        has_hints = all(hint in candidate.body for hint in ("i <= n", "r == Sum(i)"))
        return reject(candidate.body, *wrong, *([] if has_hints else ["ensures r"]))

    found = asyncio.run(work_on(path, judge).run())
    # Its own declaration is solved, also where its new lines move what it includes.
    assert (found.status, found.solved, found.left) == ("partly", {"Add": 4}, {})
    assert found.text == f'include "wrong.dfy"\n{HINTED}'
    assert "in " in found.message
    assert "wrong.dfy, line 3: assertion might not hold" in found.message


def test_patches_are_ones_that_git_applies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a b"
    folder.mkdir()
    odd = ('a b/"q".dfy', 'a b/é"q.dfy', "a b/c\rr.dfy")
    names = ("a b/one.dfy", str(folder / "two.dfy"), f"../{tmp_path.name}/a b/3.dfy", *odd)
    for number, name in enumerate(names):
        path = Path(name)
        mark = b"\xef\xbb\xbf" * (number == 1)
        path.write_bytes(mark + SUM.removesuffix("\n").encode())
        source = HintSource(read_one(path))
        new = DAFNY.pooling.insert(source.text, ["3:1 assert true;", "9:3 invariant i <= n"])
        found = Annotated(name, "solved", new)
        patch = "".join(make_patch(source, found))
        Path("patch").write_bytes(patch.encode())
        done = subprocess.run(["git", "apply", "patch"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert path.read_bytes() == mark + new.encode()


def test_what_stops_one_file_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "lines.jsonl").write_text('{"id": "x", "language": "dafny", "code": "x"}\n')
    (tmp_path / "t.lean").write_text("theorem t : True := sorry\n")
    monkeypatch.setenv("PROVERRL_LEAN", str(tmp_path / "no-lean"))
    assert annotate("empty.jsonl").exit_code == 1
    done = annotate("lines.jsonl", "t.lean", "./t.lean", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 3
    assert sorted((row["file"], row["status"]) for row in rows) == [
        ("t.lean", "unusable"),
        ("x", "unusable"),
    ]
    assert all(row["message"] for row in rows)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path, link = tmp_path / "sum.dfy", tmp_path / "link.dfy"
    path.write_bytes(b"\xef\xbb\xbf" + SUM.replace("\n", "\r\n").encode())
    link.symlink_to(path)
    source = HintSource(read_one(link))
    hints = ["9:3 invariant i <= n", "9:3 invariant r == Sum(i)"]
    new = DAFNY.pooling.insert(source.text, hints)
    source.write(new)
    # The mark at its beginning, the ends of lines and the link stay.
    hinted = HINTED.replace("\n", "\r\n")
    assert path.read_bytes() == b"\xef\xbb\xbf" + hinted.encode()
    assert link.is_symlink()
    with pytest.raises(ProblemError, match="was changed while hints were sought"):
        source.write(SUM)
    # What stands beside it under any name is not touched.
    assert not list(tmp_path.glob(".proverrl-*"))
    assert path.read_bytes() == b"\xef\xbb\xbf" + hinted.encode()
    assert {child.name for child in tmp_path.iterdir()} == {"sum.dfy", "link.dfy"}
    path.chmod(0o444)
    with pytest.raises(ProblemError, match="read-only"):
        HintSource(read_one(path)).write(SUM)
    path.chmod(0o644)
    entry = read_one(path)
    path.write_text(SUM[:40])
    with pytest.raises(ProblemError, match="it was changed while it was read"):
        HintSource(entry)
    with pytest.raises(ProblemError, match="whole files in Dafny and Lean"):
        HintSource(Submission("x", Candidate(Problem("x", "dafny", ANNOTATE, "", HOLE), SUM)))


TWICE = """function Sum(n: nat): nat { if n == 0 then 0 else n + Sum(n - 1) }

method Show(n: nat) returns (r: nat)
  ensures r == 2 * Sum(n)
{
  r := n * (n + 1);
}
"""


@pytest.mark.dafny
def test_helper_lemmas_of_a_model_need_leave(tmp_path: Path) -> None:
    path = tmp_path / "twice.dfy"
    path.write_text(TWICE)
    lemma = "lemma Gauss(n: nat)\n  ensures n * (n + 1) == 2 * Sum(n)\n{\n}\n"
    body = TWICE.replace("\nmethod", f"\n{lemma}\nmethod").replace("  r :=", "  Gauss(n);\n  r :=")

    async def propose(problem: Problem, prefix: Prefix, num: int, seed: int) -> list[Proposal]:
        return [Proposal(body, 9, 0.0)] * num

    async def work(verifier: Verifier, *, allow_lemmas: bool) -> Annotated:
        tools = Tools(cast(Any, propose), cast(Any, None), verifier, verifier, 60)
        work = open_annotating(
            HintSource(read_one(path)), verifier, HintBudget(calls=8),
            tools=tools, allow_lemmas=allow_lemmas,
        )  # fmt: skip
        return await work.run()

    found = ask_verifier(lambda verifier: work(verifier, allow_lemmas=True))
    assert (found.status, found.solved) == ("solved", {"Show": 3})
    assert found.text == body
    assert [hint.text for hint in found.hints] == [lemma.rstrip("\n"), "Gauss(n);"]
    refused = ask_verifier(lambda verifier: work(verifier, allow_lemmas=False))
    assert (refused.status, refused.text, refused.left) == ("open", TWICE, {"Show": 3})
    assert refused.message.endswith("were not tried: --allow-lemmas")
