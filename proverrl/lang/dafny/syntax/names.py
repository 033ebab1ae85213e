"""The names that generated Dafny programs may use, by role."""

from __future__ import annotations

from types import MappingProxyType

from proverrl.lang.pools import Pools, split_pool

VARIABLE_POOLS: Pools = MappingProxyType(
    {
        "counter": split_pool("i j k p idx step cur d g ix | m c w e num h"),
        "bound": split_pool("n m len cnt size c top num lim w | k p v x cap g"),
        "total": split_pool("s t r z acc sum tot e v out | n u y idx d base"),
        "param": split_pool("x y v w key base k u cap g | b m t z val len"),
        "array": split_pool("a b xs arr data vals c d buf t | s y cells row h w"),
        "index": split_pool("q e h ix u m z f row y | i j v p o tot"),
        "arg": split_pool("q x n y o k h p j val | u i s g m c"),
        "seq": split_pool("s xs ys w row l zs p cells | a t q data b"),
        "list": split_pool("l u xs c ls ys z rest r | s p zs v buf x"),
        "head": split_pool("h x y v e hd g val o | a i k t u n"),
        "tail": split_pool("t rest tl ys r w n q | l s xs m z p"),
        "flag": split_pool("ok b res yes found good f | r out t v h"),
        "low": split_pool("lo left l b first low x | i s k d u"),
        "high": split_pool("hi right r top last high y | j e n z lim"),
        "mid": split_pool("mid half c m at f | x q k t ls"),
    }
)
"""Role of a variable: its train names, and its valid and held-out names."""

GLOBAL_POOLS: Pools = MappingProxyType(
    {
        "method": split_pool("Run Calc Go Work Solve Step Sum Eval M Find | Make Fold G Show Val"),
        "function": split_pool("F G Fn Q Rec Val Fold Def H Get | P Sum R Run Work Law"),
        "lemma": split_pool("Lem Fact Prop Law Show Holds Claim P R | Rec Calc Q Def M"),
        "datatype": split_pool("List Chain Data Tree Items Stack | Node Law Solve Get"),
        "empty": split_pool("Nil Empty End Leaf Stop Zero | List Fn Step Go"),
        "joined": split_pool("Cons Link Node More Push Make | Chain Data Eval Fact"),
    }
)
"""Role of a capitalised name: its train names, and its valid and held-out names."""
