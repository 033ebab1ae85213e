"""English for formal statements: a grammar with many wordings, the same for all languages.

Flows in: a statement as ``Phrase``s, a random source, a split. Flows out: sentences. Names and
symbols of the program stand in backquotes. Words have one reading: a form that could take in what
stands beside it (``a plus b``) is used where nothing does, and claims inside others have brackets.
Each form has wordings that training statements never use, built of words that they do use.
Not handled here: reading a language (its room does), what is irrelevant beyond a
sentence that says so, and other languages than English.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from proverrl.types import Split


@dataclass(frozen=True, slots=True)
class Phrase:
    """A value or a claim. ``op`` is a key of ``WORDINGS`` or one of ``name``, ``number`` (its
    digits), ``call`` (the function in ``text``), ``chain`` (relations in
    ``text``, one between each two arguments). ``all`` and ``some`` have their names in ``text`` and
    perhaps their type behind the claim."""

    op: str
    args: tuple[Phrase, ...] = ()
    text: str = ""


class UnsaidError(Exception):
    """A form without words."""


class PhraseReader:
    """Goes over the tokens of a statement; a language says what ``read_all`` reads."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self._pieces = [*pieces, ""]
        self._place = 0

    def read(self) -> Phrase | None:
        """All of it as a phrase; None for what has no words."""
        try:
            phrase = self.read_all()
        except (UnsaidError, RecursionError):
            return None
        return phrase if self.piece == "" else None

    def read_all(self) -> Phrase:
        """The phrase that begins here. Raises ``UnsaidError``."""
        raise UnsaidError

    @property
    def piece(self) -> str:
        """The token here; empty at the end."""
        return self._pieces[self._place]

    def next(self) -> str:
        """The token here, and go on. Raises ``UnsaidError`` at the end."""
        piece = self.piece
        if not piece:
            raise UnsaidError("the end")
        self._place += 1
        return piece

    def take(self, *pieces: str) -> bool:
        """True if one of these is here; if so, go on."""
        found = bool(self.piece) and self.piece in pieces
        self._place += found
        return found


def is_number(piece: str) -> bool:
    """True if a token is a number that can be said: digits of other scripts are none, nor is what
    Python refuses to read for its length."""
    return piece.isascii() and piece.isdigit() and len(piece) <= _MAX_DIGITS


Forms = tuple[tuple[str, ...], tuple[str, ...]]
"""Wordings for all, and those that training never sees."""


def forms(text: str) -> Forms:
    """Wordings between bars; those behind a double one are held back."""
    seen, _, held = text.partition("||")
    return tuple(map(str.strip, seen.split("|"))), tuple(map(str.strip, held.split("|")))


ASKS: Forms = forms(
    "find the number {1} such that {0}. | which number {1} makes it true that {0}? | determine {1},"
    " if {0}. || which number {1} is such that {0}?"
)
"""Questions for a number: {0} is what is claimed, {1} the number."""

# Values: those that begin with "the" or a bracket are closed: they may stand inside others.
WORDINGS: Mapping[str, Forms] = MappingProxyType(
    {
        name: forms(text)
        for name, text in {
            "+": "{0} plus {1} | the sum of {0} and {1} | {1} more than {0} | {0} increased by {1}"
            "|| the number that is {1} more than {0}",
            "-": "{0} minus {1} | the difference of {0} and {1} | {1} less than {0}"
            "| {0} decreased by {1} || the number that is {1} less than {0}",
            "*": "{0} times {1} | the product of {0} and {1} | {0} multiplied by {1}"
            "|| the value of {0} multiplied by {1}",
            "/": "{0} divided by {1} | the quotient of {0} and {1} || the value of {0} divided by"
            " {1}",
            "%": "{0} modulo {1} | the remainder of {0} divided by {1} | the remainder of {0}"
            " modulo {1} || the remainder when {0} is divided by {1}",
            "neg": "minus {0} | the negative of {0} || the negative value of {0}",
            "index": "the element of {0} at position {1} | the entry of {0} at index {1}"
            "| the value in {0} at position {1} || the value of {0} at index {1}",
            "length": "the length of {0} | the number of elements of {0} | the size of {0}"
            "|| the number of elements in {0}",
            "old": "the original value of {0} | the former value of {0} | the value of {0} before"
            " the call || the value, before the call, of {0}",
            "contents": "the elements of {0} | the contents of {0} || the elements that {0} holds",
            "prefix": "the first {1} elements of {0} | the part of {0} before position {1}"
            "|| the elements of {0} before position {1}",
            "suffix": "the part of {0} from position {1} on | the elements of {0} from index {1} on"
            "|| the elements of {0} from position {1} on",
            "cons": "the list of {0} followed by {1} | the list that begins with {0} and goes on"
            " with {1} || the list with {0} before {1}",
            "join": "the sequence {0} followed by {1} | the sequence {0} continued with {1}"
            "|| the sequence of {0} and then {1}",
            "single": "the sequence of {0} alone | the sequence that holds only {0}"
            "|| the sequence with the only element {0}",
            "bag": "the multiset of {0} || the multiset of all {0}",
            "if": "({1} if {0}, otherwise {2}) | (if {0} then {1}, else {2})"
            "| ({1} when {0}, and {2} otherwise) || (if {0} then {1}, otherwise {2})",
            "=": "{0} equals {1} | {0} is equal to {1} | {0} is {1} | {0} is the same as {1}"
            "|| {0} and {1} are equal | {0} and {1} are the same",
            "!=": "{0} differs from {1} | {0} is not {1} | {0} is different from {1}"
            "|| {0} and {1} are not equal",
            "<": "{0} is less than {1} | {0} is smaller than {1} | {0} is below {1}"
            "|| {1} is larger than {0}",
            "<=": "{0} is at most {1} | {0} is not above {1} | {0} does not exceed {1}"
            "|| {1} is not less than {0}",
            ">": "{0} is greater than {1} | {0} exceeds {1} | {0} is above {1} | {0} is larger than"
            " {1} || {1} is smaller than {0}",
            ">=": "{0} is at least {1} | {0} is not less than {1} | {0} is not below {1}"
            "|| {1} does not exceed {0}",
            "true": "{0} is true | {0} holds || {0} is the case",
            "not": "it is not the case that {0} | it is false that {0} || it is not true that {0}",
            "and": "{0}, and {1} | both {0} and {1} | {0}, and also {1} || both {1} and also {0}",
            "or": "either {0} or {1} | {0}, or else {1} | {0} or {1} || either {0}, or else {1}",
            "implies": "if {0}, then {1} | {1} whenever {0} | {0} implies that {1} | {1} provided"
            " that {0} || {1} if {0}",
            "iff": "{0} exactly when {1} | {0} if and only if {1} | {0} just in case {1}"
            "|| {0} whenever {1}, and only then",
            "all": "for every {0}, {1} | for all {0} it holds that {1} | whatever {0} is, {1}"
            "| for each {0}, {1} || {1}, whatever {0} is",
            "some": "there is some {0} such that {1} | for at least one {0}, {1} | there exists {0}"
            " with the property that {1} || it holds for some {0} that {1}",
            "range": "{0} is at least {1} and less than {2} | {0} lies between {1} (inclusive) and"
            " {2} (exclusive) | {0} runs from {1} up to but not including {2}"
            "|| {0} is not below {1} and is below {2}",
            "span": "{0} is at least {1} and at most {2} | {0} lies between {1} and {2}, both"
            " inclusive | {0} runs from {1} up to {2} || {0} is not below {1} and not above {2}",
        }.items()
    }
)
ASIDES: Forms = forms(
    "It will be reviewed next week. | Speed does not matter here. | An older version was slower."
    "| Nothing is printed. | All lengths are in metres. | Version {0} of it is in use."
    "| It is called about {0} times a day. || Nothing is reviewed. | An older version was in use."
)
CALLS: Forms = forms("{0} of {1} | the value of {0} at {1} || the value at {1} of {0}")
_ASIDE_SHARE = 0.25
_MAX_DIGITS = 100
ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

RELATIONS = frozenset(("=", "!=", "<", "<=", ">", ">="))
CLAIMS = frozenset(("not", "and", "or", "implies", "iff", "all", "some", "chain"))
# Claims that end where the next word begins another one must be put in brackets inside others.
_OPEN_CLAIMS = CLAIMS - {"chain"}
# A claim inside one of these, and a part inside another part, would not be seen to end.
_HOLDERS = RELATIONS | {"old", "call"}
_PARTS = frozenset(("contents", "prefix", "suffix", "join", "cons"))


def spell(number: int) -> str:
    """A number from 0 to 999 in words."""
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")
    hundreds, rest = divmod(number, 100)
    return f"{ONES[hundreds]} hundred" + (f" and {spell(rest)}" if rest else "")


@cache
def _find_spelled() -> tuple[re.Pattern[str], dict[str, str]]:
    values = {spell(value): str(value) for value in range(1000)}
    # The longest first: "one hundred and five" is no "one hundred".
    words = "|".join(sorted(values, key=len, reverse=True))
    # "One hundred and two hundred" are two numbers.
    return re.compile(rf"`[^`]*`|\b(?:{words})\b(?! hundred\b)", re.IGNORECASE), values


def write_digits(text: str) -> str:
    """A text with the numbers that ``spell`` writes in digits; what is quoted stays."""
    pattern, values = _find_spelled()
    return pattern.sub(lambda match: values.get(match.group().lower(), match.group()), text)


class English:
    """Words for one statement. Beside the split ``train`` half of the wordings are, where there are
    such, those that training does not use."""

    def __init__(self, rng: random.Random, split: Split, *, spelled: float = 0.25) -> None:
        self._rng = rng
        self._held = split != "train"
        self._spelled = spelled

    def choose(self, known: Forms) -> str:
        """A wording."""
        return self._pick(known[0], known[1] if self._held else ())

    def aside(self) -> str:
        """A sentence that says nothing of the statement."""
        number = self._rng.randrange(3, 400)
        return self.choose(ASIDES).format(number)

    def arrange(self, sentences: Sequence[str]) -> str:
        """Sentences that belong together in some order, perhaps with one that says nothing."""
        said = self._rng.sample(list(sentences), len(sentences))
        if self._rng.random() < _ASIDE_SHARE:
            said.insert(self._rng.randrange(len(said) + 1), self.aside())
        return " ".join(said)

    def say_claim(self, phrase: Phrase) -> str:
        """A whole claim."""
        return self.say(_make_claim(phrase))

    def say(self, phrase: Phrase, *, closed: bool = False) -> str:
        """A value or a claim; ``closed`` where more text of the same sentence follows it."""
        if phrase.op == "name":
            return f"`{phrase.text}`"
        if phrase.op == "number":
            return self._say_number(int(phrase.text))
        if phrase.op == "call":
            return self._say_call(phrase)
        if phrase.op == "chain":
            return self._say_chain(phrase, closed=closed)
        if phrase.op in ("all", "some"):
            return self._say_bound(phrase, closed=closed)
        known = WORDINGS[phrase.op]
        is_claim = phrase.op in CLAIMS or phrase.op in RELATIONS
        if not is_claim and (closed or phrase.args[0].op not in ("name", "number")):
            known = _keep_closed(known)
        args = (
            tuple(_make_claim(arg) for arg in phrase.args) if phrase.op in CLAIMS else phrase.args
        )
        is_closed = phrase.op not in RELATIONS
        said = self._fill(phrase.op, self.choose(known), args, closed=is_closed)
        return f"({said})" if closed and phrase.op in _OPEN_CLAIMS else said

    def _say_inside(self, op: str, phrase: Phrase, *, closed: bool) -> str:
        """The words inside a form; in brackets where more could be drawn into it."""
        is_claim = phrase.op in RELATIONS or phrase.op in CLAIMS
        if op in _HOLDERS and is_claim:
            return f"({self.say(phrase)})"
        said = self.say(phrase, closed=closed)
        return f"({said})" if op in _PARTS and _holds_part(phrase) else said

    def _say_number(self, value: int) -> str:
        is_spelled = 0 <= value < 1000 and self._rng.random() < self._spelled
        # "One hundred" and five would be one hundred and five.
        return spell(value) if is_spelled and (value == 0 or value % 100) else str(value)

    def _say_call(self, phrase: Phrase) -> str:
        args = [self._say_inside(phrase.op, arg, closed=True) for arg in phrase.args]
        listed = args[0] if len(args) == 1 else f"({', '.join(args)})"
        return self.choose(CALLS).format(f"`{phrase.text}`", listed)

    def _say_chain(self, phrase: Phrase, *, closed: bool) -> str:
        """``a <= b < c`` and its kin with one sentence where there is one, else link by link."""
        relations, args = phrase.text.split(), phrase.args
        form = {"<= <": "range", "<= <=": "span"}.get(" ".join(relations))
        if form is not None:
            return self._fill(phrase.op, self.choose(WORDINGS[form]), (args[1], args[0], args[2]))
        links = [
            self.say(Phrase(relation, args[i : i + 2])) for i, relation in enumerate(relations)
        ]
        return f"({' and '.join(links)})" if closed else " and ".join(links)

    def _say_bound(self, phrase: Phrase, *, closed: bool) -> str:
        listed = list_names(phrase.text.split())
        if len(phrase.args) > 1:
            listed += f" in {self.say(phrase.args[1])}"
        claim = self.say(_make_claim(phrase.args[0]), closed=True)
        said = self.choose(WORDINGS[phrase.op]).format(listed, claim)
        return f"({said})" if closed else said

    def _fill(self, op: str, form: str, args: Sequence[Phrase], *, closed: bool = True) -> str:
        return form.format(*(self._say_inside(op, arg, closed=closed) for arg in args))

    def _pick(self, seen: Sequence[str], held: Sequence[str]) -> str:
        if held and self._rng.random() < 0.5:
            return self._rng.choice(list(held))
        return self._rng.choice(list(seen))


def list_names(names: Sequence[str]) -> str:
    """Names of the program, one after the other."""
    quoted = [f"`{name}`" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def _make_claim(phrase: Phrase) -> Phrase:
    """A name or a call that stands where a claim does, as one."""
    return Phrase("true", (phrase,)) if phrase.op in ("name", "call") else phrase


def _holds_part(phrase: Phrase) -> bool:
    return phrase.op in _PARTS or any(map(_holds_part, phrase.args))


def _keep_closed(known: Forms) -> Forms:
    """Those that begin with "the" or a bracket, which nothing that follows can be drawn into."""
    seen, held = ([form for form in group if form.startswith(("the ", "("))] for group in known)
    return tuple(seen) or known[0], tuple(held)


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return text[:1].upper() + text[1:] + "."
