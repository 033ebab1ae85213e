"""Judges three bodies for each of three problems with one pool of workers, and prints a table.

    python verify_batch.py

The bodies stand for what a policy writes: a right one, one that is too weak, and one that cheats.
The verdicts come in the order of the candidates.
"""

import proverrl

STATEMENT = """method Times(n: nat) returns (r: int)
  ensures r == {k} * n
{{
  r := 0;
  var i := 0;
  while i < n
    /*{{HOLE}}*/
  {{
    i := i + 1;
    r := r + {k};
  }}
}}
"""
BODIES = {
    "right": "invariant 0 <= i <= n\ninvariant r == {k} * i",
    "weak": "invariant 0 <= i <= n",
    "cheat": "invariant true\n{{ assume false; }}\nwhile true",
}


def main() -> None:
    """Build, judge, print."""
    rows = []
    for k in (2, 3, 38):
        problem = proverrl.Problem(
            id=f"times-{k}",
            language="dafny",
            kind="invariants",
            preamble="",
            statement=STATEMENT.format(k=k),
        )
        rows += [(name, proverrl.Candidate(problem, b.format(k=k))) for name, b in BODIES.items()]
    verdicts = proverrl.verify([candidate for _, candidate in rows], workers=2)
    for (name, candidate), verdict in zip(rows, verdicts, strict=True):
        said = verdict.diagnostics[0].message if verdict.diagnostics else ""
        print(f"{candidate.problem.id:9} {name:6} {verdict.status:9} {said}")


if __name__ == "__main__":
    main()
