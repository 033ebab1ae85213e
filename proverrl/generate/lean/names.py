"""The names that generated Lean theorems may use, by role."""

from __future__ import annotations

from types import MappingProxyType

from proverrl.lang.pools import Pools, split_pool

POOLS: Pools = MappingProxyType(
    {
        "theorem": split_pool("goal main claim step fact thm rule law prop key | done res aim"),
        # Lean wants a program behind "main".
        "task": split_pool("goal claim step fact thm rule law prop key | done res aim"),
        "type": split_pool("A B T X Y Obj Item Elem Pt | P Q R Good Ok Bad"),
        "prop": split_pool("p q r s t u v w p1 q1 r1 s1 | a b c d x y z k m n e j"),
        "pred": split_pool("P Q R Good Ok Fits Holds Bad | Sat Ev Has Cert"),
        "relation": split_pool("Rel Lt Le Near Joins Sees Likes | Links To Via"),
        "function": split_pool("f g h0 op inv swap next prev | size dbl tot run comp walk"),
        "point": split_pool("a b c d x y z e o a1 b1 c1 | p q r s t u v w p1 q1 r1 s1"),
        "number": split_pool("n m k i j len num cnt | x y a b"),
        "hyp": split_pool(
            "h h1 h2 h3 h4 h5 h6 h7 h8 h9 hp hq hr hs ha hb hc hd hx hy"
            " | w1 w2 w3 w4 w5 w6 w7 w8 w9 k1 k2 k3 k4 k5 k6 k7 k8 k9"
        ),
        "data": split_pool(
            "Color Shape Dir Mode State Signal Gate Phase Kind Step Coin"
            " | Chain Stack Queue Heap Term"
        ),
        "list": split_pool(
            "Chain Stack Queue Lst Line Row Pile Bag | Tree Heap Node Color State Gate"
        ),
        "tree": split_pool(
            "Tree Term Heap Node Branch Bush Fork Expr | Chain Queue Row Mode Signal"
        ),
        "term": split_pool("l s t xs ys zs ws us rest | p q r a b c d m n"),
        "value": split_pool(
            "red blue green on off up down lo hi mid one two six ten yes no"
            " | nil tip leaf node push link"
        ),
        "base": split_pool("nil empty leaf tip none0 stop end0 zero0 unit | red off lo mid six no"),
        "join": split_pool(
            "cons node push link add mul fork more put both | up on next two eval app dbl"
        ),
        "recursive": split_pool(
            "size dbl sum app rev count twist eval len0 total mk go tot run comp walk"
            " | f g op inv swap prev push put"
        ),
    }
)
