"""Files that include others: what is read, what is refused, and that no lie comes in with them."""

from __future__ import annotations

import asyncio
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from proverrl.cli.main import cli
from proverrl.lang import find_language
from proverrl.lang.dafny.verify.workers.server import DafnyServerWorker
from proverrl.problems import includes
from proverrl.problems.includes import Included, IncludeError, combine, join_includes
from proverrl.problems.inputs import Submission, Unusable, make_file_candidate, read_inputs
from proverrl.types import Diagnostic, Status, Verdict
from tests.fake_verifier import FakeVerifier
from tests.serve_world import SETTINGS, in_loop, listen

LEMMA = "lemma Base(n: nat) ensures n + 1 > n {}\n"
USES = 'include "lib/base.dfy"\n\nlemma Top(n: nat) ensures n + 2 > n { Base(n); }\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "tree"
    (root / "lib").mkdir(parents=True)
    (root / "lib/base.dfy").write_text(LEMMA)
    (root / "top.dfy").write_text(USES)
    monkeypatch.chdir(root)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return root


def join(name: str, folder: str = ".") -> tuple[str, tuple[Included, ...]]:
    return join_includes(Path(name), find_language("dafny"), folder)


def verify(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = CliRunner().invoke(cli, ["verify", "-j", "1", "--json", *words])
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return done.exit_code, {row["id"]: row for row in rows}


@in_loop
async def test_servers_judge_what_is_included_with_the_file(tree: Path) -> None:
    """They are sent one text, so that none of it is left to be judged apart."""
    fake = FakeVerifier(lambda candidate: Status.PROVED)
    async with listen(SETTINGS, fake) as port:
        url = f"http://127.0.0.1:{port}"
        status, rows = await asyncio.to_thread(verify, "lib", "top.dfy", "--server", url)
    assert (status, {row["status"] for row in rows.values()}) == (0, {"proved"})
    assert sorted(candidate.body.count("lemma") for candidate in fake.calls) == [1, 2]


def test_the_text_holds_each_file_once(tree: Path) -> None:
    text, parts = join("top.dfy")
    head = " " * len('include "lib/base.dfy"')
    assert text == f"{head}\n{USES.partition(chr(10))[2]}{LEMMA}"
    assert parts == (Included("lib/base.dfy", 3, 1),)
    # A diamond, other spellings, and two directives in one file; what is included stands first.
    (tree / "lib/mid.dfy").write_text(
        'include "./base.dfy"\ninclude "../lib//base.dfy"\ntype M = nat'
    )
    (tree / "top.dfy").write_text(
        '// first\n/* include "no.dfy" */ include "lib/mid.dfy" include\n"lib/x/../base.dfy"\n'
        "type T = nat // no line end"
    )
    text, parts = join("top.dfy")
    assert parts == (Included("lib/base.dfy", 4, 2), Included("lib/mid.dfy", 5, 2))
    assert text.splitlines()[3] == "type T = nat // no line end"
    assert text.splitlines()[4:] == [LEMMA.strip(), " " * 20, " " * 26, "type M = nat"]
    assert "include" not in text.partition("*/")[2]


def test_the_key_holds_what_is_included(tree: Path) -> None:
    def key() -> str:
        (entry,) = read_inputs(["top.dfy"], open(os.devnull, "rb"))  # noqa: SIM115
        assert isinstance(entry, Submission)
        return entry.key

    first = key()
    assert key() == first
    (tree / "lib/base.dfy").write_text(LEMMA.replace("n + 1", "n + 3"))
    assert key() != first


REFUSED = {
    "a missing file": ({}, "lib/none.dfy", "cannot be read: No such file"),
    "another case": ({"top2.dfy": ""}, "Lib/base.dfy", "cannot be read: No such file"),
    "out of the tree": ({"../out.dfy": LEMMA}, "../out.dfy", "outside .*tree"),
    "out and in again": ({}, "../tree/../out.dfy", "outside .*tree"),
    "an absolute path": ({}, "/etc/base.dfy", "an absolute path or none"),
    "a drive": ({}, "C:/base.dfy", "an absolute path or none"),
    "no name": ({}, "", "an absolute path or none"),
    "a folder": ({"d.dfy/x.dfy": ""}, "d.dfy", "no regular file|Is a directory"),
    "another suffix": ({"a.txt": LEMMA}, "a.txt", r"no \.dfy file"),
    "a backslash": ({}, "lib\\\\base.dfy", "with / between folders"),
    "itself": ({}, "top.dfy", "in a round"),
    "a round": (
        {"a.dfy": 'include "top.dfy"\n'},
        "a.dfy",
        r"line 1 of a\.dfy\): includes itself in",
    ),
    "half a program": ({"a.dfy": "module M {"}, "a.dfy", "no program by itself: line 1: a bracket"),
    "half a comment": ({"a.dfy": "type T = nat /* "}, "a.dfy", "by itself: line 1: a comment does"),
    "the end of one": ({"a.dfy": "*/ type T = nat"}, "a.dfy", "no program by itself"),
    "a preprocessor": ({"a.dfy": "#if X\n#endif\n"}, "a.dfy", "must not begin with #"),
    "not UTF-8": ({"a.dfy": "\udcff"}, "a.dfy", "not UTF-8"),
    "a late include": (
        {"a.dfy": 'type T = nat\ninclude "lib/base.dfy"\n'},
        "a.dfy",
        "no program by itself: line 2",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_followed(case: str, tree: Path) -> None:
    files, name, said = REFUSED[case]
    for path, text in files.items():
        (tree / path).parent.mkdir(exist_ok=True)
        (tree / path).write_bytes(text.encode("utf-8", "surrogateescape"))
    (tree / "top.dfy").write_text(f'\ninclude "lib/base.dfy"\ninclude "{name}"\n{LEMMA[:0]}')
    with pytest.raises(IncludeError, match=said) as caught:
        join("top.dfy")
    assert caught.value.line in (2, 3)
    (entry,) = read_inputs(["top.dfy"], open(os.devnull, "rb"))  # noqa: SIM115
    assert isinstance(entry, Unusable)
    assert (entry.kind, entry.line, entry.file) == ("malformed", caught.value.line, "top.dfy")


def test_links_and_other_names_are_refused(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "out.dfy").write_text(LEMMA)
    (tree / "link.dfy").symlink_to(tmp_path / "out.dfy")
    (tree / "inside.dfy").symlink_to("lib/base.dfy")
    (tree / "linked").symlink_to("lib")
    os.link("lib/base.dfy", "hard.dfy")
    os.mkfifo("pipe.dfy")
    for name, said in {
        "link.dfy": "symbolic link",
        "inside.dfy": "symbolic link",
        "linked/base.dfy": "symbolic link",
        "hard.dfy": r"the same file as lib/base\.dfy, under another name",
        "pipe.dfy": "no regular file",
    }.items():
        Path("top.dfy").write_text(f'include "lib/base.dfy"\ninclude "{name}"\n')
        with pytest.raises(IncludeError, match=said):
            join("top.dfy")
    Path("moved.dfy").symlink_to("top.dfy")
    with pytest.raises(IncludeError, match="name the file itself"):
        join("moved.dfy")


def test_the_tree_is_the_checkout(tree: Path) -> None:
    Path("lib/up.dfy").write_text('include "../top.dfy"\n')
    with pytest.raises(IncludeError, match="outside"):
        join_includes(Path("lib/up.dfy"), find_language("dafny"))
    with pytest.raises(IncludeError, match="outside"):
        join("lib/up.dfy", "lib")
    assert len(join("lib/up.dfy", ".")[1]) == 2
    (tree / ".git").mkdir()
    assert len(join("lib/up.dfy", "lib")[1]) == 2


def test_many_files(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(60):
        Path(f"c{number}.dfy").write_text(f'include "c{number + 1}.dfy"\ntype T{number} = nat\n')
    Path("c60.dfy").write_text(LEMMA)
    with pytest.raises(IncludeError, match="more than 50 files deep"):
        join("c0.dfy")
    assert len(join("c20.dfy")[1]) == 40
    monkeypatch.setattr(includes, "_MAX_TOTAL", 300)
    with pytest.raises(IncludeError, match="more than 300 characters in all"):
        join("c20.dfy")


def test_an_include_elsewhere_is_left_to_the_audit_and_half_a_program_is_said(tree: Path) -> None:
    Path("top.dfy").write_text(text := 'type T = nat\ninclude "lib/base.dfy"\n')
    assert join("top.dfy") == (text, ())
    Path("top.dfy").write_text('include "lib/base.dfy"\nmodule M {')
    with pytest.raises(IncludeError, match="line 2: a bracket is not closed"):
        join("top.dfy")


@pytest.mark.dafny
@pytest.mark.slow
def test_what_is_proved_with_includes(tree: Path) -> None:
    status, rows = verify(".")
    assert (status, {name: row["status"] for name, row in rows.items()}) == (
        0,
        {"lib/base.dfy": "proved", "top.dfy": "proved"},
    )
    # What is included is proved anew: two entries, each with its own.
    names = {entry["entry"].rpartition(".")[2] for entry in rows["top.dfy"]["obligations"]}
    assert {"Base", "Top"} <= names
    # A lemma that no longer holds takes with it what leans on it.
    Path("lib/base.dfy").write_text("\nlemma Base(n: nat)\n  ensures n > n + 1\n{}\n")
    status, rows = verify(".")
    assert (status, {row["status"] for row in rows.values()}) == (1, {"rejected"})
    found = rows["top.dfy"]["diagnostics"][0]
    assert found["message"].startswith("in lib/base.dfy, line 4: A postcondition might not hold")
    assert found["line"] == 1
    # An index of types alone has nothing to prove.
    Path("lib/base.dfy").write_text("datatype D = A | B\n")
    Path("top.dfy").write_text('include "lib/base.dfy"\n')
    status, rows = verify(".")
    assert (status, {row.get("nothing_to_prove") for row in rows.values()}) == (0, {True})
    assert verify(".", "--strict")[0] == 1


LIES = {
    "axiom": "lemma {:axiom} Lie() ensures false\n",
    "a body left out": "lemma Lie() ensures false\n",
    "verify": "lemma {:verify false} Lie() ensures false {}\n",
    "assume": "lemma Lie() ensures false { assume false; }\n",
    "extern": "method {:extern} Lie() ensures false\n",
    "termination": "lemma Lie() ensures false decreases * { Lie(); }\n",
    "a false proof": "lemma Lie() ensures false {}\n",
    "a round of lemmas": "lemma Lie() ensures false { Top(); }\n",
}


@pytest.mark.dafny
@pytest.mark.slow
@pytest.mark.parametrize("deep", [False, True], ids=["directly", "through another"])
def test_no_lie_is_included(deep: bool, tree: Path) -> None:
    for number, text in enumerate(LIES.values()):
        Path(f"lib/lie{number}.dfy").write_text(text)
        Path(f"lib/mid{number}.dfy").write_text(f'include "lie{number}.dfy"\ntype M = nat\n')
        name = f"lib/{'mid' if deep else 'lie'}{number}.dfy"
        Path(f"user{number}.dfy").write_text(
            f'include "{name}"\nlemma Top() ensures false {{ Lie(); }}\n'
        )
    status, rows = verify("user*.dfy")
    assert status == 1
    assert len(rows) == len(LIES)
    assert {row["status"] for row in rows.values()} <= {"rejected", "unsound"}
    for name, row in rows.items():
        said = " ".join(found["message"] for found in row["diagnostics"])
        # Of the round Dafny names the lemma that calls on.
        assert "in lib/lie" in said or name == "user7.dfy", (name, said)


@pytest.mark.dafny
@pytest.mark.slow
def test_an_unchanged_tree_starts_no_verifier(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status, rows = verify(".")
    assert status == 0

    def start(*_: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr("proverrl.lang.dafny.verify.backend.start_dafny_worker", start)
    status, again = verify(".")
    assert status == 0
    assert {name: row["key"] for name, row in again.items()} == {
        name: row["key"] for name, row in rows.items()
    }


@pytest.mark.parametrize("option", ["--out", "--junit"])
def test_no_program_is_overwritten(tree: Path, option: str) -> None:
    done = CliRunner().invoke(cli, ["verify", "top.dfy", option, "lib/base.dfy"])
    assert done.exception is not None
    assert f"{option} lib/base.dfy is a program, which would be overwritten" in str(done.exception)
    assert (tree / "lib/base.dfy").read_text() == LEMMA


@pytest.mark.dafny
def test_an_error_beside_an_include_is_no_cheat_and_symbols_are_read(tree: Path) -> None:
    (tree / "half.dfy").write_text('include "lib/base.dfy"\nlemma Half() ensures true {\n')
    (tree / "symbol.dfy").write_text('include "lib/base.dfy"\nlemma S() ensures 1 ≤ 1 {}\n')
    (tree / "over.dfy").write_text('include "symbol.dfy"\nlemma O() ensures true { S(); }\n')
    _, rows = verify("half.dfy", "symbol.dfy", "over.dfy")
    assert [rows[name]["status"] for name in ("half.dfy", "symbol.dfy", "over.dfy")] == [
        "error",
        "proved",
        "proved",
    ]
    assert "a bracket is not closed" in rows["half.dfy"]["message"]


@pytest.mark.dafny
def test_two_files_of_one_name_are_told_apart(tree: Path) -> None:
    for folder in ("a", "b"):
        (tree / folder).mkdir()
        (tree / folder / "base.dfy").write_text("\nlemma Base(n: nat) ensures n > n + 1 {}\n")
        (tree / folder / "top.dfy").write_text(USES.replace("lib/", ""))
    _, rows = verify("a", "b/top.dfy", str(tree / "b/top.dfy"), "--junit", "j.xml")
    said = "line 2: A postcondition might not hold on this return path."
    messages = {
        "a/base.dfy": said.partition(": ")[2],
        "a/top.dfy": f"in a/base.dfy, {said}",
        "b/top.dfy": f"in b/base.dfy, {said}",
        f"{tree}/b/top.dfy": f"in {tree}/b/base.dfy, {said}",
    }
    assert {name: row["diagnostics"][0]["message"] for name, row in rows.items()} == messages
    # The report says the place once, beside the message.
    failures = {
        str(case.get("name")): (case[0].get("message"), case[0].text)
        for case in ElementTree.parse("j.xml").iter("testcase")
    }
    places = dict.fromkeys(messages, "1:1") | {"a/base.dfy": "2:38"}
    clause = "This is the postcondition that might not hold."
    notes = {
        name: f"2:30 {clause}"
        if name == "a/base.dfy"
        else f"1:1 {text.partition(': ')[0]}: {clause}"
        for name, text in messages.items()
    }
    assert failures == {
        name: (text, f"{places[name]} {text} ({notes[name]})") for name, text in messages.items()
    }


LIBRARY = "module M { function x(): int { 1 } }\nimport opened M\nlemma Lib() ensures x() == 1 {}\n"
CONSTANTS = (
    "function a(): int { 1 }\nfunction b(): int { 1 }\n"
    "class C { static lemma Lib() ensures a() == b() {} }\n"
)
TRAIT = (
    "trait T { function f(n: nat): nat decreases n }\n"
    "function Lib(t: T, n: nat): nat decreases n { t.f(n) }\n"
)
TOGETHER = {
    "a name of its own before that of an import": (
        LIBRARY,
        "function x(): int { 2 }\nlemma Top() ensures false { Lib(); }\n",
    ),
    "a name of a module that it opens": (
        LIBRARY,
        "module N { function x(): int { 2 } }\nimport opened N\n"
        "lemma Top() ensures false { Lib(); }\n",
    ),
    "a constructor before a function": (
        CONSTANTS,
        "datatype D = a | b\nlemma Top() ensures false { C.Lib(); }\n",
    ),
    "another module under the name of an import": (
        "module M { module N { function x(): int { 1 } } }\nimport opened M\n"
        "lemma Lib() ensures M.N.x() == 1 {}\n",
        "module O { function x(): int { 2 } }\nimport N = O\n"
        "lemma Top() ensures false { Lib(); }\n",
    ),
    "a class that extends its trait": (
        TRAIT,
        "class K extends T { function f(n: nat): nat decreases n { Lib(this, n) + 1 } }\n"
        "lemma Top(k: K) ensures false { assert k.f(0) == Lib(k, 0) + 1; }\n",
    ),
}


def list_apart(tree: Path) -> list[tuple[str, int]]:
    (entry,) = read_inputs([str(tree / "top.dfy")], io.BytesIO())
    assert isinstance(entry, Submission)
    assert entry.candidate.own_lines == 0
    return [(candidate.body, candidate.own_lines) for candidate in entry.apart]


@pytest.mark.parametrize("case", TOGETHER)
def test_what_could_change_the_meaning_of_an_included_file_is_verified_with_it(
    case: str, tree: Path
) -> None:
    library, top = TOGETHER[case]
    (tree / "lib/base.dfy").write_text(library)
    (tree / "top.dfy").write_text(f'include "lib/base.dfy"\n{top}')
    assert list_apart(tree) == []


def test_what_fails_in_an_included_file_is_said_of_it() -> None:
    # A second judge reads all of the files, and does not confirm the first one for the other.
    wrong = Verdict(Status.REJECTED, (Diagnostic("error", "it does not hold", 3),))
    unsure = Verdict(Status.UNCONFIRMED, (Diagnostic("error", "not confirmed"),))
    parts = (Included("base.dfy", 2, 1),)
    found = combine((wrong, unsure), parts)
    assert found.status is Status.REJECTED
    assert [d.message for d in found.diagnostics] == ["in base.dfy, line 3: it does not hold"]
    proved = Verdict(Status.PROVED, checks=("audit",))
    assert combine((proved, unsure), parts) is unsure


def test_what_a_program_rests_and_hangs_on_is_said_of_it() -> None:
    proved = Verdict(Status.PROVED, checks=("audit",))
    part = replace(proved, believed=(("axiom", 1),), at_limit=True)
    # What is believed is counted over all of its files.
    whole = replace(proved, believed=(("assume", 1), ("axiom", 1)))
    found = combine((part, whole), (Included("base.dfy", 2, 1),))
    assert (found.believed, found.at_limit) == (whole.believed, True)


def test_each_file_is_a_question_of_its_own(tree: Path) -> None:
    (tree / "lib/mid.dfy").write_text('include "base.dfy"\ntype M = nat\n')
    (tree / "top.dfy").write_text('include "lib/mid.dfy"\nlemma Top() { Base(1); }\n')
    head = " " * len('include "base.dfy"')
    mid = f"{head}\ntype M = nat\n{LEMMA}"
    head = " " * len('include "lib/mid.dfy"')
    top = f"{head}\nlemma Top() {{ Base(1); }}\n{LEMMA}{mid.removesuffix(LEMMA)}"
    assert list_apart(tree) == [(LEMMA, 0), (mid, 2), (top, 2)]
    # The first lines alone are another question than the whole.
    whole = make_file_candidate("a", top)
    assert replace(whole, own_lines=2).key not in (whole.key, replace(whole, own_lines=3).key)


@pytest.mark.dafny
@pytest.mark.slow
def test_what_is_verified_together_is_not_believed(tree: Path) -> None:
    for number, (library, top) in enumerate(TOGETHER.values()):
        (tree / f"lib/lib{number}.dfy").write_text(library)
        (tree / f"user{number}.dfy").write_text(f'include "lib/lib{number}.dfy"\n{top}')
    status, rows = verify("user*.dfy")
    assert status == 1
    assert {row["status"] for row in rows.values()} <= {"rejected", "unsound"}


@pytest.mark.dafny
@pytest.mark.slow
def test_a_file_that_several_include_is_verified_once(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tree / f"user{number}.dfy").write_text(
            f'include "lib/base.dfy"\nlemma User{number}(n: nat) ensures n + 2 > n {{ Base(n); }}\n'
        )
    (tree / "top.dfy").write_text('include "lib/base.dfy"\ntype Top = nat\n')
    asked: list[str] = []
    ask = DafnyServerWorker._ask

    async def note(worker: DafnyServerWorker, source: str, *more: Any) -> str:
        asked.append(source)
        return await ask(worker, source, *more)

    monkeypatch.setattr(DafnyServerWorker, "_ask", note)
    status, rows = verify("--no-cache", ".")
    assert (status, {row["status"] for row in rows.values()}) == (0, {"proved"})
    ours = [text for text in asked if "Canary" not in text]
    assert len(ours) == 5
    assert sum("lemma Base" in text for text in ours) == 1
    assert [
        {entry["entry"].rpartition(".")[2] for entry in rows[name]["obligations"]}
        for name in ("lib/base.dfy", "top.dfy", "user1.dfy")
    ] == [{"Base"}, {"Base"}, {"Base", "User1"}]
