"""Rules that are needed only because Dafny 2.3 has bugs: their forms are refused.

The walls (``verify.walls``) know no bug. These rules stay for what the walls do not see, which
docs/verifiers.md lists; with a Dafny that has none of the bugs the folder can go.
"""
