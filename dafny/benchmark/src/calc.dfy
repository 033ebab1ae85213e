// Calculations with the middle left out: the hole stands inside a calc statement.

//@ unfold-sum, level 1, calc
//@ The sum of three elements, one at a time.
module UnfoldSum {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Three(a: int, b: int, c: int)
    ensures Sum([a, b, c]) == a + b + c
  {
    calc {
      Sum([a, b, c]);
      //<
      == { assert [a, b, c][1..] == [b, c]; }
      a + Sum([b, c]);
      == { assert [b, c][1..] == [c]; }
      a + b + Sum([c]);
      == { assert [c][1..] == []; }
      //>
      a + b + c;
    }
  }
}

//@ doubled-twice, level 1, calc
//@ A function that adds its argument n times, used with one lemma twice.
module DoubledTwice {
  function Times(n: nat, x: int): int
  {
    if n == 0 then 0 else x + Times(n - 1, x)
  }

  lemma {:induction false} IsProduct(n: nat, x: int)
    ensures Times(n, x) == n * x
  {
    if n > 0 {
      IsProduct(n - 1, x);
      assert n * x == x + (n - 1) * x;
    }
  }

  lemma {:induction false} Swaps(m: nat, n: nat)
    ensures Times(m, n) == Times(n, m)
  {
    calc {
      Times(m, n);
      //<
      == { IsProduct(m, n); }
      m * n;
      == { IsProduct(n, m); }
      //>
      Times(n, m);
    }
  }
}

//@ sum-append-steps, level 2, calc
//@ The sum of two joined sequences, by induction on the first.
module SumAppendSteps {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Sum(s + t) == Sum(s) + Sum(t)
  {
    if |s| == 0 {
      assert s + t == t;
    } else {
      calc {
        Sum(s + t);
        //<
        == { assert (s + t)[0] == s[0] && (s + t)[1..] == s[1..] + t; }
        s[0] + Sum(s[1..] + t);
        == { Append(s[1..], t); }
        s[0] + Sum(s[1..]) + Sum(t);
        //>
        Sum(s) + Sum(t);
      }
    }
  }
}

//@ reverse-append-steps, level 3, calc
//@ The reverse of two joined sequences, by induction on the first.
module ReverseAppendSteps {
  function Reverse(s: seq<int>): seq<int>
  {
    if |s| == 0 then [] else Reverse(s[1..]) + [s[0]]
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Reverse(s + t) == Reverse(t) + Reverse(s)
    decreases |s|
  {
    if |s| == 0 {
      assert s + t == t;
    } else {
      calc {
        Reverse(s + t);
        //<
        == { assert (s + t)[0] == s[0] && (s + t)[1..] == s[1..] + t; }
        Reverse(s[1..] + t) + [s[0]];
        == { assert Reverse(t) + [] == Reverse(t); Append(s[1..], t); }
        (Reverse(t) + Reverse(s[1..])) + [s[0]];
        ==
        Reverse(t) + (Reverse(s[1..]) + [s[0]]);
        ==
        //>
        Reverse(t) + Reverse(s);
      }
    }
  }
}

//@ power-of-product, level 3, calc
//@ The power of a product is the product of the powers.
module PowerOfProduct {
  function Power(b: int, e: nat): int
  {
    if e == 0 then 1 else b * Power(b, e - 1)
  }

  lemma {:induction false} Product(a: int, b: int, e: nat)
    ensures Power(a * b, e) == Power(a, e) * Power(b, e)
  {
    if e > 0 {
      calc {
        Power(a * b, e);
        //<
        ==
        (a * b) * Power(a * b, e - 1);
        == { Product(a, b, e - 1); }
        (a * b) * (Power(a, e - 1) * Power(b, e - 1));
        ==
        (a * Power(a, e - 1)) * (b * Power(b, e - 1));
        ==
        //>
        Power(a, e) * Power(b, e);
      }
    }
  }
}

//@ list-reverse-steps, level 3, calc
//@ A list reversed twice is the list, given how reversing treats an element put at the end.
module ListReverseSteps {
  datatype List = Nil | Cons(head: int, tail: List)

  function Snoc(xs: List, y: int): List
  {
    match xs
    case Nil => Cons(y, Nil)
    case Cons(x, rest) => Cons(x, Snoc(rest, y))
  }

  function Reverse(xs: List): List
  {
    match xs
    case Nil => Nil
    case Cons(x, rest) => Snoc(Reverse(rest), x)
  }

  lemma {:induction false} LastFirst(xs: List, y: int)
    ensures Reverse(Snoc(xs, y)) == Cons(y, Reverse(xs))
  {
    match xs {
      case Nil => assert Reverse(Cons(y, Nil)) == Snoc(Nil, y);
      case Cons(x, rest) => LastFirst(rest, y);
    }
  }

  lemma {:induction false} Twice(xs: List)
    ensures Reverse(Reverse(xs)) == xs
  {
    match xs {
      case Nil =>
      case Cons(x, rest) =>
        calc {
          Reverse(Reverse(xs));
          //<
          ==
          Reverse(Snoc(Reverse(rest), x));
          == { LastFirst(Reverse(rest), x); }
          Cons(x, Reverse(Reverse(rest)));
          == { Twice(rest); }
          //>
          xs;
        }
    }
  }
}

//@ last-element-first, level 2, calc
//@ Reversing a list whose last element is known starts with it.
module LastElementFirst {
  datatype List = Nil | Cons(head: int, tail: List)

  function Snoc(xs: List, y: int): List
  {
    match xs
    case Nil => Cons(y, Nil)
    case Cons(x, rest) => Cons(x, Snoc(rest, y))
  }

  function Reverse(xs: List): List
  {
    match xs
    case Nil => Nil
    case Cons(x, rest) => Snoc(Reverse(rest), x)
  }

  lemma {:induction false} LastFirst(xs: List, y: int)
    ensures Reverse(Snoc(xs, y)) == Cons(y, Reverse(xs))
  {
    match xs {
      case Nil => assert Reverse(Cons(y, Nil)) == Snoc(Nil, y);
      case Cons(x, rest) =>
        calc {
          Reverse(Snoc(xs, y));
          //<
          ==
          Snoc(Reverse(Snoc(rest, y)), x);
          == { LastFirst(rest, y); }
          Snoc(Cons(y, Reverse(rest)), x);
          ==
          //>
          Cons(y, Reverse(xs));
        }
    }
  }
}

//@ growing-chain, level 2, calc
//@ A chain of inequalities, each from a lemma about one step.
module GrowingChain {
  function Wave(n: nat): int
  {
    if n == 0 then 1 else Wave(n - 1) * 2 - n % 2
  }

  lemma {:induction false} Positive(n: nat)
    ensures Wave(n) >= 1
  {
    if n > 0 { Positive(n - 1); }
  }

  lemma {:induction false} Grows(n: nat)
    ensures Wave(n) <= Wave(n + 3)
  {
    calc {
      Wave(n);
      //<
      <= { Positive(n); }
      Wave(n + 1);
      <= { Positive(n + 1); }
      Wave(n + 2);
      <= { Positive(n + 2); }
      //>
      Wave(n + 3);
    }
  }
}

//@ follows-from, level 2, calc
//@ Three implications in a row.
module FollowsFrom {
  predicate Red(n: nat)
  {
    if n == 0 then true else !Red(n - 1)
  }

  predicate Wide(n: nat)
  {
    if n == 0 then true else if n < 4 then false else Wide(n - 4)
  }

  lemma {:induction false} RedIsEven(n: nat)
    ensures Red(n) <==> n % 2 == 0
  {
    if n > 0 { RedIsEven(n - 1); }
  }

  lemma {:induction false} WideIsFour(n: nat)
    ensures Wide(n) <==> n % 4 == 0
  {
    if n >= 4 { WideIsFour(n - 4); }
  }

  lemma {:induction false} WideIsRed(n: nat)
    ensures Wide(n) ==> Red(n)
  {
    calc {
      Wide(n);
      //<
      ==> { WideIsFour(n); }
      n % 4 == 0;
      ==>
      n % 2 == 0;
      ==> { RedIsEven(n); }
      //>
      Red(n);
    }
  }
}

//@ peano-add-steps, level 2, calc
//@ A successor may move from one summand to the other.
module PeanoAddSteps {
  datatype Num = Zero | Succ(pred: Num)

  function Add(a: Num, b: Num): Num
  {
    match a
    case Zero => b
    case Succ(p) => Succ(Add(p, b))
  }

  lemma {:induction false} Moves(a: Num, b: Num)
    ensures Add(a, Succ(b)) == Add(Succ(a), b)
  {
    match a {
      case Zero =>
        assert Add(Succ(Zero), b) == Succ(Add(Zero, b));
      case Succ(p) =>
        calc {
          Add(a, Succ(b));
          //<
          ==
          Succ(Add(p, Succ(b)));
          == { Moves(p, b); }
          Succ(Add(Succ(p), b));
          ==
          //>
          Add(Succ(a), b);
        }
    }
  }
}

//@ odd-numbers-steps, level 2, calc
//@ Twice the sum of a row of numbers is a product of neighbours.
module OddNumbersSteps {
  function Sum(n: nat): int
  {
    if n == 0 then 0 else Sum(n - 1) + (3 * n + 1)
  }

  lemma {:induction false} Closed(n: nat)
    ensures 2 * Sum(n) == n * (3 * n + 5)
  {
    if n > 0 {
      calc {
        2 * Sum(n);
        //<
        ==
        2 * Sum(n - 1) + 6 * n + 2;
        == { Closed(n - 1); }
        (n - 1) * (3 * (n - 1) + 5) + 6 * n + 2;
        ==
        //>
        n * (3 * n + 5);
      }
    }
  }
}

//@ fibonacci-jump, level 5, calc
//@ A Fibonacci number far ahead from two pairs of earlier ones.
module FibonacciJump {
  function Fib(n: nat): int
  {
    if n < 2 then n else Fib(n - 1) + Fib(n - 2)
  }

  lemma {:induction false} Jump(m: nat, n: nat)
    ensures Fib(m + n + 1) == Fib(m + 1) * Fib(n + 1) + Fib(m) * Fib(n)
    decreases m
  {
    if m == 0 {
      assert Fib(1) * Fib(n + 1) + Fib(0) * Fib(n) == Fib(n + 1);
    } else if m == 1 {
      assert Fib(2) == 1;
      assert Fib(n + 2) == Fib(n + 1) + Fib(n);
      assert Fib(2) * Fib(n + 1) + Fib(1) * Fib(n) == Fib(n + 1) + Fib(n);
    } else {
      calc {
        Fib(m + n + 1);
        //<
        ==
        Fib((m - 1) + n + 1) + Fib((m - 2) + n + 1);
        == { Jump(m - 1, n); Jump(m - 2, n); }
        Fib(m) * Fib(n + 1) + Fib(m - 1) * Fib(n) + (Fib(m - 1) * Fib(n + 1) + Fib(m - 2) * Fib(n));
        ==
        (Fib(m) + Fib(m - 1)) * Fib(n + 1) + (Fib(m - 1) + Fib(m - 2)) * Fib(n);
        == { assert Fib(m + 1) == Fib(m) + Fib(m - 1); }
        //>
        Fib(m + 1) * Fib(n + 1) + Fib(m) * Fib(n);
      }
    }
  }
}

//@ rotate-sum, level 3, calc
//@ Moving the first part of a sequence to its end does not change the sum.
module RotateSum {
  function Sum(s: seq<int>): int
  {
    if |s| == 0 then 0 else s[0] + Sum(s[1..])
  }

  lemma {:induction false} Append(s: seq<int>, t: seq<int>)
    ensures Sum(s + t) == Sum(s) + Sum(t)
  {
    if |s| == 0 {
      assert s + t == t;
    } else {
      Append(s[1..], t);
      assert (s + t)[1..] == s[1..] + t;
    }
  }

  lemma {:induction false} Rotate(s: seq<int>, k: nat)
    requires k <= |s|
    ensures Sum(s[k..] + s[..k]) == Sum(s)
  {
    calc {
      Sum(s[k..] + s[..k]);
      //<
      == { Append(s[k..], s[..k]); }
      Sum(s[k..]) + Sum(s[..k]);
      == { Append(s[..k], s[k..]); }
      Sum(s[..k] + s[k..]);
      == { assert s[..k] + s[k..] == s; }
      //>
      Sum(s);
    }
  }
}

//@ flatten-twice, level 3, calc
//@ The length of a flattened sequence of sequences is the sum of the lengths.
module FlattenTwice {
  function Flatten(s: seq<seq<int>>): seq<int>
  {
    if |s| == 0 then [] else Flatten(s[..|s| - 1]) + s[|s| - 1]
  }

  function Lengths(s: seq<seq<int>>): nat
  {
    if |s| == 0 then 0 else |s[0]| + Lengths(s[1..])
  }

  lemma {:induction false} LengthsAtEnd(s: seq<seq<int>>, last: seq<int>)
    ensures Lengths(s + [last]) == Lengths(s) + |last|
  {
    if |s| == 0 {
      assert s + [last] == [last];
    } else {
      calc {
        Lengths(s + [last]);
        //<
        == { assert (s + [last])[0] == s[0] && (s + [last])[1..] == s[1..] + [last]; }
        |s[0]| + Lengths(s[1..] + [last]);
        == { LengthsAtEnd(s[1..], last); }
        |s[0]| + Lengths(s[1..]) + |last|;
        ==
        //>
        Lengths(s) + |last|;
      }
    }
  }

  lemma {:induction false} Length(s: seq<seq<int>>)
    ensures |Flatten(s)| == Lengths(s)
    decreases |s|
  {
    if |s| > 0 {
      var front, last := s[..|s| - 1], s[|s| - 1];
      Length(front);
      LengthsAtEnd(front, last);
      assert s == front + [last];
    }
  }
}

//@ square-difference, level 2, calc
//@ The difference of two neighbouring values of a recursive square, as a chain.
module SquareDifference {
  function Square(n: nat): int
  {
    if n == 0 then 0 else Square(n - 1) + 2 * n - 1
  }

  lemma {:induction false} IsSquare(n: nat)
    ensures Square(n) == n * n
  {
    if n > 0 { IsSquare(n - 1); }
  }

  lemma {:induction false} Difference(m: nat, n: nat)
    ensures Square(m) - Square(n) == (m - n) * (m + n)
  {
    calc {
      Square(m) - Square(n);
      //<
      == { IsSquare(m); }
      m * m - Square(n);
      == { IsSquare(n); }
      m * m - n * n;
      ==
      //>
      (m - n) * (m + n);
    }
  }
}

//@ weighted-sum, level 2, calc
//@ Weighing every element by a factor weighs the sum by it.
module WeightedSum {
  datatype List = Nil | Cons(head: int, tail: List)

  function Sum(xs: List): int
  {
    match xs
    case Nil => 0
    case Cons(x, rest) => x + Sum(rest)
  }

  function Weigh(f: int, xs: List): List
  {
    match xs
    case Nil => Nil
    case Cons(x, rest) => Cons(f * x, Weigh(f, rest))
  }

  lemma {:induction false} Weighed(f: int, xs: List)
    ensures Sum(Weigh(f, xs)) == f * Sum(xs)
  {
    match xs {
      case Nil =>
      case Cons(x, rest) =>
        calc {
          Sum(Weigh(f, xs));
          //<
          ==
          f * x + Sum(Weigh(f, rest));
          == { Weighed(f, rest); }
          f * x + f * Sum(rest);
          ==
          f * (x + Sum(rest));
          ==
          //>
          f * Sum(xs);
        }
    }
  }
}
