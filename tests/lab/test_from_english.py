"""The lab's guide, from words to a proof, is followed to the end."""

from tests.house.test_guides import Followed, follows, guide  # noqa: F401  (a fixture)
from tests.house.test_installed import environment  # noqa: F401  (a fixture)


@follows("from-english")
def test_from_english(guide: Followed) -> None:  # noqa: F811
    assert set(guide.statuses.values()) == {0}
    kept = {str(row["id"]): str(row["reference"]) for row in guide.read("kept.jsonl")}
    assert set(kept) == {"seven", "more"}
    assert all(text.startswith("ensures ") for text in kept.values())
    [verdict] = guide.read("verdict.jsonl")
    assert verdict["status"] == "proved"
    proof = (guide.folder / "searches/seven/proofs/words-proof/proof.dfy").read_text()
    # What was chosen is the contract of the method that is proved.
    statements = guide.read("searches/seven/formaliser/evals/statements.statements.jsonl")
    [chosen] = [str(row["body"]) for row in statements if not row["dropped"]]
    assert chosen in proof
    assert "invariant" in proof
