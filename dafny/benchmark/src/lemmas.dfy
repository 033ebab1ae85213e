// Lemmas that follow from other lemmas, by cases, for all values, with a witness, or by induction.
// Several are about numbers built by hand (Zero and Succ), so that no prover knows them beforehand.

//@ use-twice, level 1, statements
//@ If every value of a function is positive, so is the sum of two of them.
module UseTwice {
  function F(n: nat): int
  {
    if n == 0 then 3 else F(n - 1) + 2
  }

  lemma {:induction false} Positive(n: nat)
    ensures F(n) > 0
  {
    if n > 0 { Positive(n - 1); }
  }

  lemma {:induction false} SumPositive(i: nat, j: nat)
    ensures F(i) + F(j) > 0
  {
    //<
    Positive(i);
    Positive(j);
    //>
  }
}

//@ chain-of-steps, level 1, statements
//@ A function grows with each step, so it grows over three steps.
module ChainOfSteps {
  function Growing(n: nat): int
  {
    if n == 0 then 0 else Growing(n - 1) + n % 7 + 1
  }

  lemma OneStep(n: nat)
    ensures Growing(n) < Growing(n + 1)
  {
  }

  lemma ThreeSteps(n: nat)
    ensures Growing(n) < Growing(n + 3)
  {
    //<
    OneStep(n);
    OneStep(n + 1);
    OneStep(n + 2);
    //>
  }
}

//@ for-all-values, level 2, statements
//@ A lemma about one value says more than is needed; what is needed is wanted for all values.
module ForAllValues {
  function Weight(n: nat): int
  {
    if n == 0 then 3 else 2 * Weight(n - 1) - n
  }

  lemma {:induction false} Above(n: nat)
    ensures Weight(n) > n
  {
    if n == 1 {
      assert Weight(0) == 3;
    } else if n > 1 {
      Above(n - 1);
    }
  }

  lemma {:induction false} AllPositive(limit: nat)
    ensures forall n: nat :: n < limit ==> Weight(n) > 0
  {
    //<
    forall n: nat | n < limit
      ensures Weight(n) > 0
    {
      Above(n);
    }
    //>
  }
}

//@ power-above-exponent, level 2, statements
//@ Two to the power of n is greater than n.
module PowerAboveExponent {
  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  lemma {:induction false} Above(n: nat)
    ensures n < Pow2(n)
  {
    //<
    if n > 0 {
      Above(n - 1);
    }
    //>
  }
}

//@ peano-add-zero, level 2, statements
//@ Adding zero on the right changes nothing, though addition is defined on the left.
module PeanoAddZero {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  lemma {:induction false} AddZero(a: Num)
    ensures Add(a, Zero) == a
  {
    //<
    match a {
      case Zero =>
      case Succ(p) => AddZero(p);
    }
    //>
  }
}

//@ peano-add-commutes, level 3, statements
//@ Addition commutes, given what it does with zero and with a successor on the right.
module PeanoAddCommutes {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  lemma {:induction false} AddZero(a: Num)
    ensures Add(a, Zero) == a
  {
    match a {
      case Zero =>
      case Succ(p) => AddZero(p);
    }
  }

  lemma {:induction false} AddSucc(a: Num, b: Num)
    ensures Add(a, Succ(b)) == Succ(Add(a, b))
  {
    match a {
      case Zero =>
      case Succ(p) => AddSucc(p, b);
    }
  }

  lemma {:induction false} Commutes(a: Num, b: Num)
    ensures Add(a, b) == Add(b, a)
  {
    //<
    match a {
      case Zero => AddZero(b);
      case Succ(p) =>
        Commutes(p, b);
        AddSucc(b, p);
    }
    //>
  }
}

//@ peano-order-transitive, level 3, statements
//@ The order of hand-built numbers is transitive.
module PeanoOrderTransitive {
  datatype Num = Zero | Succ(pred: Num)

  predicate AtMost(a: Num, b: Num)
  {
    match a
    case Zero => true
    case Succ(p) => b.Succ? && AtMost(p, b.pred)
  }

  lemma {:induction false} Transitive(a: Num, b: Num, c: Num)
    requires AtMost(a, b)
    requires AtMost(b, c)
    ensures AtMost(a, c)
  {
    //<
    if a.Succ? {
      Transitive(a.pred, b.pred, c.pred);
    }
    //>
  }
}

//@ peano-order-antisymmetric, level 3, statements
//@ Two hand-built numbers that are each at most the other are equal.
module PeanoOrderAntisymmetric {
  datatype Num = Zero | Succ(pred: Num)

  predicate AtMost(a: Num, b: Num)
  {
    match a
    case Zero => true
    case Succ(p) => b.Succ? && AtMost(p, b.pred)
  }

  lemma {:induction false} Antisymmetric(a: Num, b: Num)
    requires AtMost(a, b)
    requires AtMost(b, a)
    ensures a == b
  {
    //<
    if a.Succ? && b.Succ? {
      Antisymmetric(a.pred, b.pred);
    }
    //>
  }
}

//@ peano-order-of-sums, level 3, statements
//@ A hand-built number is at most its sum with another, on either side of the sum.
module PeanoOrderOfSums {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  predicate AtMost(a: Num, b: Num)
  {
    match a
    case Zero => true
    case Succ(p) => b.Succ? && AtMost(p, b.pred)
  }

  lemma {:induction false} Next(a: Num, b: Num)
    requires AtMost(a, b)
    ensures AtMost(a, Succ(b))
  {
    if a.Succ? { Next(a.pred, b.pred); }
  }

  lemma {:induction false} Same(a: Num)
    ensures AtMost(a, a)
  {
    if a.Succ? { Same(a.pred); }
  }

  lemma {:induction false} BelowSum(a: Num, b: Num)
    ensures AtMost(a, Add(a, b))
    ensures AtMost(b, Add(a, b))
  {
    //<
    match a {
      case Zero => Same(b);
      case Succ(p) =>
        BelowSum(p, b);
        Next(b, Add(p, b));
    }
    //>
  }
}

//@ peano-distributes, level 4, statements
//@ Multiplication distributes over addition, given that addition is associative.
module PeanoDistributes {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  function Mul(a: Num, b: Num): Num
  {
    match a
    case Zero => Zero
    case Succ(p) => Add(b, Mul(p, b))
  }

  lemma {:induction false} AddAssociates(a: Num, b: Num, c: Num)
    ensures Add(Add(a, b), c) == Add(a, Add(b, c))
  {
    match a {
      case Zero =>
      case Succ(p) => AddAssociates(p, b, c);
    }
  }

  lemma {:induction false} Distributes(a: Num, b: Num, c: Num)
    ensures Mul(Add(a, b), c) == Add(Mul(a, c), Mul(b, c))
  {
    //<
    match a {
      case Zero =>
      case Succ(p) =>
        Distributes(p, b, c);
        AddAssociates(c, Mul(p, c), Mul(b, c));
    }
    //>
  }
}

//@ peano-multiply-commutes, level 5, statements
//@ Multiplication commutes; first find what it does with zero and with a successor on the right.
module PeanoMultiplyCommutes {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  function Mul(a: Num, b: Num): Num
  {
    match a
    case Zero => Zero
    case Succ(p) => Add(b, Mul(p, b))
  }

  lemma {:induction false} AddSwaps(a: Num, b: Num, c: Num)
    ensures Add(a, Add(b, c)) == Add(b, Add(a, c))
  {
    match a {
      case Zero =>
      case Succ(p) =>
        AddSwaps(p, b, c);
        AddSucc(b, Add(p, c));
    }
  }

  lemma {:induction false} AddSucc(a: Num, b: Num)
    ensures Add(a, Succ(b)) == Succ(Add(a, b))
  {
    match a {
      case Zero =>
      case Succ(p) => AddSucc(p, b);
    }
  }

  lemma {:induction false} MulZero(a: Num)
    ensures Mul(a, Zero) == Zero
  {
    match a {
      case Zero =>
      case Succ(p) => MulZero(p);
    }
  }

  lemma {:induction false} MulSucc(a: Num, b: Num)
    ensures Mul(a, Succ(b)) == Add(a, Mul(a, b))
  {
    match a {
      case Zero =>
      case Succ(p) =>
        MulSucc(p, b);
        AddSwaps(b, p, Mul(p, b));
    }
  }

  lemma {:induction false} Commutes(a: Num, b: Num)
    ensures Mul(a, b) == Mul(b, a)
  {
    //<
    match a {
      case Zero => MulZero(b);
      case Succ(p) =>
        Commutes(p, b);
        MulSucc(b, p);
    }
    //>
  }
}

//@ neighbours-to-pairs, level 3, statements
//@ If every element is less than its neighbour, the last exceeds the first by the distance.
module NeighboursToPairs {
  lemma {:induction false} Distance(s: seq<int>, i: nat, j: nat)
    requires i <= j < |s|
    requires forall k :: 0 < k < |s| ==> s[k - 1] < s[k]
    ensures s[j] - s[i] >= j - i
    decreases j - i
  {
    //<
    if i < j {
      Distance(s, i, j - 1);
      assert s[j - 1] < s[j];
    }
    //>
  }
}

//@ crossing-zero, level 4, statements
//@ A walk on whole numbers in steps of at most one, from below zero to above it, meets zero.
module CrossingZero {
  lemma {:induction false} Crosses(walk: seq<int>)
    requires |walk| > 0
    requires walk[0] <= 0 <= walk[|walk| - 1]
    requires forall k :: 0 < k < |walk| ==> walk[k] - walk[k - 1] <= 1
    ensures exists k :: 0 <= k < |walk| && walk[k] == 0
    decreases |walk|
  {
    //<
    var last := |walk| - 1;
    if walk[last] == 0 {
      assert walk[last] == 0;
    } else {
      assert last > 0;
      var shorter := walk[..last];
      assert walk[last] - walk[last - 1] <= 1;
      Crosses(shorter);
      var k :| 0 <= k < |shorter| && shorter[k] == 0;
      assert walk[k] == 0;
    }
    //>
  }
}

//@ power-beats-square, level 3, statements
//@ From 4 on, the power of two is at least the square.
module PowerBeatsSquare {
  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  lemma {:induction false} Beats(n: nat)
    requires n >= 4
    ensures Pow2(n) >= n * n
  {
    //<
    if n == 4 {
      assert Pow2(3) == 8;
    } else {
      Beats(n - 1);
      assert n * (n - 4) >= 0;
    }
    //>
  }
}

//@ factorial-beats-power, level 2, statements
//@ The factorial of n + 1 is at least two to the power of n.
module FactorialBeatsPower {
  function Fact(n: nat): nat
  {
    if n == 0 then 1 else n * Fact(n - 1)
  }

  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  lemma {:induction false} Beats(n: nat)
    ensures Fact(n + 1) >= Pow2(n)
  {
    //<
    if n > 0 {
      Beats(n - 1);
      assert (n + 1) * Fact(n) >= 2 * Fact(n);
    } else {
      assert Fact(1) == 1 * Fact(0);
    }
    //>
  }
}

//@ smaller-set, level 4, statements
//@ A subset has at most as many elements.
module SmallerSet {
  lemma {:induction false} Smaller(small: set<int>, big: set<int>)
    requires small <= big
    ensures |small| <= |big|
    decreases small
  {
    //<
    if small != {} {
      var x :| x in small;
      Smaller(small - {x}, big - {x});
    }
    //>
  }
}

//@ dictionary-order, level 4, statements
//@ The order of words in a dictionary is transitive; words are sequences of numbers.
module DictionaryOrder {
  predicate Before(s: seq<int>, t: seq<int>)
  {
    |t| > 0 && (|s| == 0 || s[0] < t[0] || (s[0] == t[0] && Before(s[1..], t[1..])))
  }

  lemma {:induction false} Transitive(s: seq<int>, t: seq<int>, u: seq<int>)
    requires Before(s, t)
    requires Before(t, u)
    ensures Before(s, u)
  {
    //<
    if |s| > 0 && s[0] == t[0] && t[0] == u[0] {
      Transitive(s[1..], t[1..], u[1..]);
    }
    //>
  }
}

//@ numbers-below, level 3, statements
//@ The set of the natural numbers below n, built one by one, holds just these and has n elements.
module NumbersBelow {
  function Below(n: nat): set<int>
  {
    if n == 0 then {} else Below(n - 1) + {n - 1}
  }

  lemma {:induction false} CountBelow(n: nat)
    ensures |Below(n)| == n
    ensures forall x :: x in Below(n) <==> 0 <= x < n
  {
    //<
    if n > 0 {
      CountBelow(n - 1);
    }
    //>
  }
}

//@ no-room, level 4, statements
//@ A set of natural numbers below n that has n elements holds every one of them.
module NoRoom {
  function Below(n: nat): set<int>
  {
    if n == 0 then {} else Below(n - 1) + {n - 1}
  }

  lemma {:induction false} CountBelow(n: nat)
    ensures |Below(n)| == n
    ensures forall x :: x in Below(n) <==> 0 <= x < n
  {
    if n > 0 { CountBelow(n - 1); }
  }

  lemma {:induction false} Smaller(small: set<int>, big: set<int>)
    requires small <= big
    ensures |small| <= |big|
    decreases small
  {
    if small != {} {
      var x :| x in small;
      Smaller(small - {x}, big - {x});
    }
  }

  lemma Everything(s: set<int>, n: nat, x: nat)
    requires forall y :: y in s ==> 0 <= y < n
    requires |s| == n
    requires x < n
    ensures x in s
  {
    //<
    if x !in s {
      CountBelow(n);
      forall y | y in s
        ensures y in Below(n) - {x}
      {
        assert 0 <= y < n;
      }
      Smaller(s, Below(n) - {x});
      assert |Below(n) - {x}| == n - 1;
    }
    //>
  }
}
