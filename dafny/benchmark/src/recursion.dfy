// Proofs that follow the recursion of a function: over lists, trees, expressions and numbers.

//@ row-of-sevens, level 1, statements
//@ A function that adds seven on every call gives the multiples of seven.
module RowOfSevens {
  function Sevens(n: nat): int
  {
    if n == 0 then 0 else Sevens(n - 1) + 7
  }

  lemma {:induction false} Multiple(n: nat)
    ensures Sevens(n) == 7 * n
  {
    //<
    if n > 0 {
      Multiple(n - 1);
    }
    //>
  }
}

//@ half-by-twos, level 2, statements
//@ Counting how often two can be taken away gives half of the number.
module HalfByTwos {
  function Half(n: nat): nat
  {
    if n < 2 then 0 else 1 + Half(n - 2)
  }

  lemma {:induction false} IsHalf(n: nat)
    ensures Half(n) == n / 2
  {
    //<
    if n >= 2 {
      IsHalf(n - 2);
    }
    //>
  }
}

//@ append-nothing, level 2, statements
//@ Appending the empty list changes nothing.
module AppendNothing {
  datatype List = Nil | Cons(head: int, tail: List)

  function Append(xs: List, ys: List): List
  {
    match xs
    case Nil => ys
    case Cons(x, rest) => Cons(x, Append(rest, ys))
  }

  lemma {:induction false} Nothing(xs: List)
    ensures Append(xs, Nil) == xs
  {
    //<
    match xs {
      case Nil =>
      case Cons(x, rest) => Nothing(rest);
    }
    //>
  }
}

//@ append-associates, level 2, statements
//@ It does not matter which of two appends is done first.
module AppendAssociates {
  datatype List = Nil | Cons(head: int, tail: List)

  function Append(xs: List, ys: List): List
  {
    match xs
    case Nil => ys
    case Cons(x, rest) => Cons(x, Append(rest, ys))
  }

  lemma {:induction false} Associates(xs: List, ys: List, zs: List)
    ensures Append(Append(xs, ys), zs) == Append(xs, Append(ys, zs))
  {
    //<
    match xs {
      case Nil =>
      case Cons(x, rest) => Associates(rest, ys, zs);
    }
    //>
  }
}

//@ mirror-twice, level 2, statements
//@ Mirroring a tree twice gives the tree back.
module MirrorTwice {
  datatype Tree = Leaf | Node(left: Tree, value: int, right: Tree)

  function Mirror(t: Tree): Tree
  {
    match t
    case Leaf => Leaf
    case Node(l, v, r) => Node(Mirror(r), v, Mirror(l))
  }

  lemma {:induction false} Twice(t: Tree)
    ensures Mirror(Mirror(t)) == t
  {
    //<
    match t {
      case Leaf =>
      case Node(l, v, r) =>
        Twice(l);
        Twice(r);
    }
    //>
  }
}

//@ even-by-turns, level 2, statements
//@ Two functions that call each other in turn tell even numbers from odd ones.
module EvenByTurns {
  predicate Even(n: nat)
  {
    if n == 0 then true else Odd(n - 1)
  }

  predicate Odd(n: nat)
  {
    if n == 0 then false else Even(n - 1)
  }

  lemma {:induction false} Parity(n: nat)
    ensures Even(n) <==> n % 2 == 0
    ensures Odd(n) <==> n % 2 == 1
  {
    //<
    if n > 0 {
      Parity(n - 1);
    }
    //>
  }
}

//@ height-below-size, level 3, statements
//@ A tree is at most as high as it has nodes.
module HeightBelowSize {
  datatype Tree = Leaf | Node(left: Tree, right: Tree)

  function Size(t: Tree): nat
  {
    match t
    case Leaf => 0
    case Node(l, r) => Size(l) + 1 + Size(r)
  }

  function Height(t: Tree): nat
  {
    match t
    case Leaf => 0
    case Node(l, r) => 1 + (if Height(l) > Height(r) then Height(l) else Height(r))
  }

  lemma {:induction false} Below(t: Tree)
    ensures Height(t) <= Size(t)
  {
    //<
    if t.Node? {
      Below(t.left);
      Below(t.right);
    }
    //>
  }
}

//@ sum-with-accumulator, level 3, statements
//@ Adding up a list with an accumulator gives the accumulator's start plus the sum.
module SumWithAccumulator {
  datatype List = Nil | Cons(head: int, tail: List)

  function Sum(xs: List): int
  {
    match xs
    case Nil => 0
    case Cons(x, rest) => x + Sum(rest)
  }

  function SumFrom(xs: List, start: int): int
  {
    match xs
    case Nil => start
    case Cons(x, rest) => SumFrom(rest, start + x)
  }

  lemma {:induction false} Same(xs: List, start: int)
    ensures SumFrom(xs, start) == start + Sum(xs)
  {
    //<
    match xs {
      case Nil =>
      case Cons(x, rest) => Same(rest, start + x);
    }
    //>
  }
}

//@ bits-and-back, level 3, statements
//@ A number written in binary and read back is the same number.
module BitsAndBack {
  datatype Bits = End | Bit(low: bool, rest: Bits)

  function Write(n: nat): Bits
  {
    if n == 0 then End else Bit(n % 2 == 1, Write(n / 2))
  }

  function Read(b: Bits): nat
  {
    match b
    case End => 0
    case Bit(low, rest) => 2 * Read(rest) + (if low then 1 else 0)
  }

  lemma {:induction false} Back(n: nat)
    ensures Read(Write(n)) == n
  {
    //<
    if n > 0 {
      Back(n / 2);
    }
    //>
  }
}

//@ count-up-in-binary, level 3, statements
//@ Adding one to a binary number, with its carry, adds one to what it says.
module CountUpInBinary {
  datatype Bits = End | Bit(low: bool, rest: Bits)

  function Read(b: Bits): nat
  {
    match b
    case End => 0
    case Bit(low, rest) => 2 * Read(rest) + (if low then 1 else 0)
  }

  function Next(b: Bits): Bits
  {
    match b
    case End => Bit(true, End)
    case Bit(low, rest) => if low then Bit(false, Next(rest)) else Bit(true, rest)
  }

  lemma {:induction false} OneMore(b: Bits)
    ensures Read(Next(b)) == Read(b) + 1
  {
    //<
    match b {
      case End => assert Read(Bit(true, End)) == 2 * Read(End) + 1;
      case Bit(low, rest) => OneMore(rest);
    }
    //>
  }
}

//@ sum-of-fibonacci, level 2, statements
//@ The first Fibonacci numbers add up to one less than a later one.
module SumOfFibonacci {
  function Fib(n: nat): nat
  {
    if n < 2 then n else Fib(n - 1) + Fib(n - 2)
  }

  function Total(n: nat): nat
  {
    if n == 0 then 0 else Total(n - 1) + Fib(n)
  }

  lemma {:induction false} Closed(n: nat)
    ensures Total(n) == Fib(n + 2) - 1
  {
    //<
    if n == 0 {
      assert Fib(2) == Fib(1) + Fib(0);
    } else {
      Closed(n - 1);
    }
    //>
  }
}

//@ power-of-sum, level 2, statements
//@ Powers with a sum as exponent are products.
module PowerOfSum {
  function Power(b: int, e: nat): int
  {
    if e == 0 then 1 else b * Power(b, e - 1)
  }

  lemma {:induction false} Exponents(b: int, m: nat, n: nat)
    ensures Power(b, m + n) == Power(b, m) * Power(b, n)
  {
    //<
    if m > 0 {
      Exponents(b, m - 1, n);
      assert b * (Power(b, m - 1) * Power(b, n)) == (b * Power(b, m - 1)) * Power(b, n);
    }
    //>
  }
}

//@ reverse-with-accumulator, level 4, statements
//@ Reversing with an accumulator puts the reverse before it, given that append associates.
module ReverseWithAccumulator {
  datatype List = Nil | Cons(head: int, tail: List)

  function Append(xs: List, ys: List): List
  {
    match xs
    case Nil => ys
    case Cons(x, rest) => Cons(x, Append(rest, ys))
  }

  function Reverse(xs: List): List
  {
    match xs
    case Nil => Nil
    case Cons(x, rest) => Append(Reverse(rest), Cons(x, Nil))
  }

  function ReverseOnto(xs: List, done: List): List
  {
    match xs
    case Nil => done
    case Cons(x, rest) => ReverseOnto(rest, Cons(x, done))
  }

  lemma {:induction false} Associates(xs: List, ys: List, zs: List)
    ensures Append(Append(xs, ys), zs) == Append(xs, Append(ys, zs))
  {
    match xs {
      case Nil =>
      case Cons(x, rest) => Associates(rest, ys, zs);
    }
  }

  lemma {:induction false} Same(xs: List, done: List)
    ensures ReverseOnto(xs, done) == Append(Reverse(xs), done)
  {
    //<
    match xs {
      case Nil =>
      case Cons(x, rest) =>
        Same(rest, Cons(x, done));
        Associates(Reverse(rest), Cons(x, Nil), done);
        assert Append(Cons(x, Nil), done) == Cons(x, Append(Nil, done));
    }
    //>
  }
}

//@ tree-to-list, level 4, statements
//@ The list of a tree's values adds up to what the tree adds up to.
module TreeToList {
  datatype List = Nil | Cons(head: int, tail: List)
  datatype Tree = Leaf | Node(left: Tree, value: int, right: Tree)

  function Append(xs: List, ys: List): List
  {
    match xs
    case Nil => ys
    case Cons(x, rest) => Cons(x, Append(rest, ys))
  }

  function Sum(xs: List): int
  {
    match xs
    case Nil => 0
    case Cons(x, rest) => x + Sum(rest)
  }

  function Values(t: Tree): List
  {
    match t
    case Leaf => Nil
    case Node(l, v, r) => Append(Values(l), Cons(v, Values(r)))
  }

  function Total(t: Tree): int
  {
    match t
    case Leaf => 0
    case Node(l, v, r) => Total(l) + v + Total(r)
  }

  lemma {:induction false} SumOfAppend(xs: List, ys: List)
    ensures Sum(Append(xs, ys)) == Sum(xs) + Sum(ys)
  {
    match xs {
      case Nil =>
      case Cons(x, rest) => SumOfAppend(rest, ys);
    }
  }

  lemma {:induction false} SameTotal(t: Tree)
    ensures Sum(Values(t)) == Total(t)
  {
    //<
    match t {
      case Leaf =>
      case Node(l, v, r) =>
        SameTotal(l);
        SameTotal(r);
        SumOfAppend(Values(l), Cons(v, Values(r)));
    }
    //>
  }
}

//@ fold-constants, level 4, statements
//@ Replacing a sum of two constants by their sum keeps the value of an expression.
module FoldConstants {
  datatype Expr = Const(number: int) | Var | Plus(first: Expr, second: Expr)

  function Value(e: Expr, x: int): int
  {
    match e
    case Const(n) => n
    case Var => x
    case Plus(a, b) => Value(a, x) + Value(b, x)
  }

  function Join(a: Expr, b: Expr): Expr
  {
    if a.Const? && b.Const? then Const(a.number + b.number)
    else if a == Const(0) then b
    else if b == Const(0) then a
    else Plus(a, b)
  }

  function Fold(e: Expr): Expr
  {
    match e
    case Const(n) => e
    case Var => e
    case Plus(a, b) => Join(Fold(a), Fold(b))
  }

  lemma {:induction false} SameValue(e: Expr, x: int)
    ensures Value(Fold(e), x) == Value(e, x)
  {
    //<
    match e {
      case Const(n) =>
      case Var =>
      case Plus(a, b) =>
        SameValue(a, x);
        SameValue(b, x);
    }
    //>
  }
}

//@ stack-machine, level 4, statements
//@ Running the code of an expression on a stack leaves its value on top.
module StackMachine {
  datatype Expr = Const(number: int) | Plus(first: Expr, second: Expr)
  datatype Op = Push(n: int) | Add
  datatype Stack = Empty | Top(value: int, below: Stack)
  datatype Code = Halt | Then(op: Op, rest: Code)

  function Value(e: Expr): int
  {
    match e
    case Const(n) => n
    case Plus(a, b) => Value(a) + Value(b)
  }

  function Compile(e: Expr, after: Code): Code
  {
    match e
    case Const(n) => Then(Push(n), after)
    case Plus(a, b) => Compile(a, Compile(b, Then(Add, after)))
  }

  function Step(op: Op, s: Stack): Stack
  {
    if op.Push? then Top(op.n, s)
    else if s.Top? && s.below.Top? then Top(s.below.value + s.value, s.below.below)
    else Empty
  }

  function Run(code: Code, s: Stack): Stack
    decreases code
  {
    match code
    case Halt => s
    case Then(op, rest) => Run(rest, Step(op, s))
  }

  lemma {:induction false} Correct(e: Expr, after: Code, s: Stack)
    ensures Run(Compile(e, after), s) == Run(after, Top(Value(e), s))
  {
    //<
    match e {
      case Const(n) =>
      case Plus(a, b) =>
        var last := Then(Add, after);
        Correct(a, Compile(b, last), s);
        Correct(b, last, Top(Value(a), s));
        assert Step(Add, Top(Value(b), Top(Value(a), s))) == Top(Value(a) + Value(b), s);
    }
    //>
  }
}

//@ find-after-insert, level 3, statements
//@ After inserting into a search tree, the search finds the new key and what it found before.
module FindAfterInsert {
  datatype Tree = Leaf | Node(left: Tree, key: int, right: Tree)

  predicate Finds(t: Tree, k: int)
  {
    match t
    case Leaf => false
    case Node(l, key, r) =>
      if k < key then Finds(l, k) else if k > key then Finds(r, k) else true
  }

  function Insert(t: Tree, k: int): Tree
  {
    match t
    case Leaf => Node(Leaf, k, Leaf)
    case Node(l, key, r) =>
      if k < key then Node(Insert(l, k), key, r)
      else if k > key then Node(l, key, Insert(r, k))
      else t
  }

  lemma {:induction false} Found(t: Tree, k: int, other: int)
    ensures Finds(Insert(t, k), other) <==> other == k || Finds(t, other)
  {
    //<
    match t {
      case Leaf =>
        assert Finds(Leaf, other) == false;
      case Node(l, key, r) =>
        Found(l, k, other);
        Found(r, k, other);
    }
    //>
  }
}

//@ size-of-full-tree, level 5, statements
//@ A tree of a given height has fewer nodes than two to the power of the height.
module SizeOfFullTree {
  datatype Tree = Leaf | Node(left: Tree, right: Tree)

  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  function Size(t: Tree): nat
  {
    match t
    case Leaf => 0
    case Node(l, r) => Size(l) + 1 + Size(r)
  }

  function Max(a: nat, b: nat): nat
  {
    if a > b then a else b
  }

  function Height(t: Tree): nat
  {
    match t
    case Leaf => 0
    case Node(l, r) => 1 + Max(Height(l), Height(r))
  }

  lemma {:induction false} Grows(a: nat, b: nat)
    requires a <= b
    ensures Pow2(a) <= Pow2(b)
  {
    if a < b { Grows(a, b - 1); }
  }

  lemma {:induction false} Full(t: Tree)
    ensures Size(t) < Pow2(Height(t))
  {
    //<
    match t {
      case Leaf =>
      case Node(l, r) =>
        Full(l);
        Full(r);
        Grows(Height(l), Max(Height(l), Height(r)));
        Grows(Height(r), Max(Height(l), Height(r)));
    }
    //>
  }
}

//@ cassini, level 3, statements
//@ The product of two Fibonacci numbers around a third differs from its square by one, in turn.
module Cassini {
  function Fib(n: nat): int
  {
    if n < 2 then n else Fib(n - 1) + Fib(n - 2)
  }

  function Sign(n: nat): int
  {
    if n == 0 then -1 else -Sign(n - 1)
  }

  lemma {:induction false} Identity(n: nat)
    ensures Fib(n) * Fib(n + 2) - Fib(n + 1) * Fib(n + 1) == Sign(n)
  {
    //<
    if n == 0 {
      assert Fib(2) == 1;
    } else {
      Identity(n - 1);
      var a, b := Fib(n - 1), Fib(n);
      assert Fib(n + 1) == a + b;
      assert Fib(n + 2) == a + b + b;
      assert b * (a + b + b) == a * b + 2 * (b * b);
      assert (a + b) * (a + b) == a * (a + b) + b * a + b * b;
    }
    //>
  }
}

//@ folds-agree, level 4, statements
//@ Adding a list from the left and from the right agree, whatever the start.
module FoldsAgree {
  datatype List = Nil | Cons(head: int, tail: List)

  function FromLeft(start: int, xs: List): int
    decreases xs
  {
    match xs
    case Nil => start
    case Cons(x, rest) => FromLeft(3 * x + start, rest)
  }

  function FromRight(xs: List, start: int): int
  {
    match xs
    case Nil => start
    case Cons(x, rest) => 3 * x + FromRight(rest, start)
  }

  lemma {:induction false} Shift(xs: List, start: int, more: int)
    ensures FromRight(xs, start + more) == FromRight(xs, start) + more
  {
    match xs {
      case Nil =>
      case Cons(x, rest) => Shift(rest, start, more);
    }
  }

  lemma {:induction false} Agree(start: int, xs: List)
    ensures FromLeft(start, xs) == FromRight(xs, start)
    decreases xs
  {
    //<
    match xs {
      case Nil =>
      case Cons(x, rest) =>
        Agree(3 * x + start, rest);
        Shift(rest, start, 3 * x);
    }
    //>
  }
}
