// Loops over numbers: what does each turn keep true?

//@ pour, level 1, invariants
//@ One jug is emptied into another, a cup at a time; nothing is spilt.
module Pour {
  method Pour(full: nat, cup: nat) returns (left: nat, poured: nat)
    ensures left == 0
    ensures poured == full + cup
  {
    left, poured := full, cup;
    while left > 0
      //<
      invariant left + poured == full + cup
      //>
    {
      left := left - 1;
      poured := poured + 1;
    }
  }
}

//@ difference-by-steps, level 1, invariants
//@ Both numbers go down together until the smaller one is gone.
module DifferenceBySteps {
  method Difference(big: nat, small: nat) returns (rest: nat)
    requires small <= big
    ensures rest == big - small
  {
    rest := big;
    var todo: nat := small;
    while todo != 0
      //<
      invariant todo <= rest
      invariant rest - todo == big - small
      //>
    {
      rest := rest - 1;
      todo := todo - 1;
    }
  }
}

//@ toggle, level 2, invariants
//@ A switch that flips on every turn tells at the end whether the number of turns was even.
module Toggle {
  method IsEven(turns: nat) returns (even: bool)
    ensures even <==> turns % 2 == 0
  {
    even := true;
    var done := 0;
    while done < turns
      //<
      invariant done <= turns
      invariant even <==> done % 2 == 0
      //>
    {
      even := !even;
      done := done + 1;
    }
  }
}

//@ divide-by-subtraction, level 2, invariants
//@ Quotient and remainder by taking the divisor away as long as it fits.
module DivideBySubtraction {
  method Divide(number: nat, divisor: nat) returns (times: nat, rest: nat)
    requires divisor > 0
    ensures number == times * divisor + rest
    ensures rest < divisor
  {
    times, rest := 0, number;
    while rest >= divisor
      //<
      invariant number == times * divisor + rest
      //>
    {
      rest := rest - divisor;
      times := times + 1;
    }
  }
}

//@ doubling, level 2, invariants
//@ Doubling n times gives the n-th power of two.
module Doubling {
  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  method PowerOfTwo(n: nat) returns (p: nat)
    ensures p == Pow2(n)
  {
    p := 1;
    var k := 0;
    while k != n
      //<
      invariant k <= n
      invariant p == Pow2(k)
      decreases n - k
      //>
    {
      p := p + p;
      k := k + 1;
    }
  }
}

//@ factorial-downwards, level 2, invariants
//@ The factorial, its factors taken from the largest to the smallest.
module FactorialDownwards {
  function Fact(n: nat): nat
  {
    if n == 0 then 1 else n * Fact(n - 1)
  }

  method Factorial(n: nat) returns (product: nat)
    ensures product == Fact(n)
  {
    product := 1;
    var k := n;
    while k > 0
      //<
      invariant product * Fact(k) == Fact(n)
      //>
    {
      product := product * k;
      k := k - 1;
    }
  }
}

//@ tribonacci, level 3, invariants
//@ Each number of the sequence is the sum of the three before it; a loop carries three of them.
module Tribonacci {
  function Trib(n: nat): nat
  {
    if n < 2 then 0 else if n == 2 then 1 else Trib(n - 1) + Trib(n - 2) + Trib(n - 3)
  }

  method Compute(n: nat) returns (first: nat)
    ensures first == Trib(n)
  {
    first := 0;
    var second, third := 0, 1;
    var i := 0;
    while i < n
      //<
      invariant i <= n
      invariant first == Trib(i)
      invariant second == Trib(i + 1)
      invariant third == Trib(i + 2)
      //>
    {
      first, second, third := second, third, first + second + third;
      i := i + 1;
    }
  }
}

//@ gcd-by-subtraction, level 3, invariants
//@ Taking the smaller number from the larger does not change their greatest common divisor.
module GcdBySubtraction {
  function Gcd(a: nat, b: nat): nat
    requires a > 0 && b > 0
    decreases a + b
  {
    if a == b then a else if a < b then Gcd(a, b - a) else Gcd(a - b, b)
  }

  method Compute(a: nat, b: nat) returns (g: nat)
    requires a > 0 && b > 0
    ensures g == Gcd(a, b)
  {
    var x, y := a, b;
    while x != y
      //<
      invariant x > 0 && y > 0
      invariant Gcd(x, y) == Gcd(a, b)
      decreases x + y
      //>
    {
      if x < y {
        y := y - x;
      } else {
        x := x - y;
      }
    }
    g := x;
  }
}

//@ floor-log-two, level 3, invariants
//@ The largest power of two that is not above a number, and its exponent.
module FloorLogTwo {
  function Pow2(n: nat): nat
  {
    if n == 0 then 1 else 2 * Pow2(n - 1)
  }

  method FloorLog(n: nat) returns (k: nat)
    requires n > 0
    ensures Pow2(k) <= n < Pow2(k + 1)
  {
    k := 0;
    var p := 1;
    while 2 * p <= n
      //<
      invariant p > 0
      invariant p == Pow2(k)
      invariant p <= n
      decreases n - p
      //>
    {
      p := 2 * p;
      k := k + 1;
    }
  }
}

//@ digit-sum, level 3, invariants
//@ The digits of a number are taken from its end and added up.
module DigitSum {
  function Digits(n: nat): nat
  {
    if n < 10 then n else n % 10 + Digits(n / 10)
  }

  method AddDigits(n: nat) returns (total: nat)
    ensures total == Digits(n)
  {
    total := 0;
    var rest := n;
    while rest >= 10
      //<
      invariant total + Digits(rest) == Digits(n)
      //>
    {
      total := total + rest % 10;
      rest := rest / 10;
    }
    total := total + rest;
  }
}

//@ octal-length, level 3, invariants
//@ How many digits a number has in base eight, by dividing it again and again.
module OctalLength {
  function Length(n: nat): nat
  {
    if n < 8 then 1 else 1 + Length(n / 8)
  }

  method Count(n: nat) returns (length: nat)
    ensures length == Length(n)
  {
    length := 1;
    var rest := n;
    while 8 <= rest
      //<
      invariant rest >= 0
      invariant length + Length(rest) == Length(n) + 1
      //>
    {
      length := length + 1;
      rest := rest / 8;
    }
  }
}

//@ cube-by-additions, level 3, invariants
//@ A cube computed with additions alone, from its first and second differences.
module CubeByAdditions {
  method Cube(n: nat) returns (cube: nat)
    ensures cube == n * n * n
  {
    cube := 0;
    var first, second, i := 1, 6, 0;
    while i < n
      //<
      invariant i <= n
      invariant cube == i * i * i
      invariant first == 3 * i * i + 3 * i + 1
      invariant second == 6 * i + 6
      //>
    {
      cube := cube + first;
      first := first + second;
      second := second + 6;
      i := i + 1;
    }
  }
}

//@ halve-and-double, level 3, invariants
//@ A product by halving one factor and doubling the other, as it was done with pebbles.
module HalveAndDouble {
  method Multiply(x: nat, y: nat) returns (product: nat)
    ensures product == x * y
  {
    product := 0;
    var a, b := x, y;
    while b > 0
      //<
      invariant product + a * b == x * y
      decreases b
      //>
    {
      if b % 2 == 1 {
        product := product + a;
      }
      a, b := 2 * a, b / 2;
    }
  }
}

//@ least-divisor, level 3, invariants
//@ The search for a divisor stops at the smallest one above 1.
module LeastDivisor {
  predicate Divides(d: nat, n: nat)
    requires d > 0
  {
    n % d == 0
  }

  method Find(n: nat) returns (d: nat)
    requires n > 1
    ensures 1 < d <= n
    ensures Divides(d, n)
    ensures forall k :: 1 < k < d ==> !Divides(k, n)
  {
    d := 2;
    while n % d != 0
      //<
      invariant 1 < d <= n
      invariant forall k :: 1 < k < d ==> !Divides(k, n)
      decreases n - d
      //>
    {
      d := d + 1;
    }
  }
}

//@ trial-division, level 3, invariants
//@ A number is prime when no smaller number above 1 divides it; the answer must be exact.
module TrialDivision {
  predicate Divides(d: nat, n: nat)
    requires d > 0
  {
    n % d == 0
  }

  method IsPrime(n: nat) returns (prime: bool)
    requires n > 1
    ensures prime <==> (forall k :: 1 < k < n ==> !Divides(k, n))
  {
    prime := true;
    var d := 2;
    while d < n && prime
      //<
      invariant 2 <= d <= n
      invariant prime ==> (forall k :: 1 < k < d ==> !Divides(k, n))
      invariant !prime ==> (exists k :: 1 < k < n && Divides(k, n))
      decreases n - d, prime
      //>
    {
      if n % d == 0 {
        assert Divides(d, n);
        prime := false;
      } else {
        d := d + 1;
      }
    }
  }
}

//@ product-by-counting, level 4, annotate
//@ Two nested loops count the cells of a rectangle one by one.
module ProductByCounting {
  method Count(rows: nat, columns: nat) returns (cells: nat)
    ensures cells == rows * columns
  {
    cells := 0;
    var r := 0;
    while r < rows
      //<
      invariant r <= rows
      invariant cells == r * columns
      //>
    {
      var c := 0;
      while c < columns
        //<
        invariant c <= columns
        invariant cells == r * columns + c
        //>
      {
        cells := cells + 1;
        c := c + 1;
      }
      r := r + 1;
    }
  }
}

//@ fast-power, level 4, invariants
//@ A power by squaring: the loop halves the exponent and squares the base.
module FastPower {
  function Power(b: int, e: nat): int
  {
    if e == 0 then 1 else b * Power(b, e - 1)
  }

  lemma {:induction false} Square(b: int, e: nat)
    ensures Power(b * b, e) == Power(b, 2 * e)
  {
    if e > 0 {
      Square(b, e - 1);
      assert Power(b, 2 * e) == b * (b * Power(b, 2 * e - 2));
      assert b * (b * Power(b, 2 * e - 2)) == (b * b) * Power(b, 2 * e - 2);
    }
  }

  method Compute(b: int, e: nat) returns (result: int)
    ensures result == Power(b, e)
  {
    result := 1;
    var x, k := b, e;
    while k > 0
      //<
      invariant result * Power(x, k) == Power(b, e)
      decreases k
      //>
    {
      if k % 2 == 1 {
        assert result * Power(x, k) == (result * x) * Power(x, k - 1);
        result := result * x;
        k := k - 1;
      }
      Square(x, k / 2);
      x, k := x * x, k / 2;
    }
  }
}

//@ sum-of-cubes, level 4, invariants
//@ The sum of the first cubes is the square of the sum of the first numbers.
module SumOfCubes {
  method Sum(n: nat) returns (cubes: nat, plain: nat)
    ensures cubes == plain * plain
    ensures 2 * plain == n * (n + 1)
  {
    cubes, plain := 0, 0;
    var i := 0;
    while i < n
      //<
      invariant i <= n
      invariant 2 * plain == i * (i + 1)
      invariant cubes == plain * plain
      //>
    {
      i := i + 1;
      assert (plain + i) * (plain + i) == plain * plain + i * (2 * plain + i);
      assert i * (2 * plain + i) == i * ((i - 1) * i + i);
      assert i * ((i - 1) * i + i) == i * (i * i);
      cubes := cubes + i * (i * i);
      plain := plain + i;
    }
  }
}

//@ horner, level 4, invariants
//@ The value of a polynomial, its coefficients taken from the highest down.
module Horner {
  function Value(coefficients: seq<int>, x: int): int
  {
    if |coefficients| == 0 then 0 else coefficients[0] + x * Value(coefficients[1..], x)
  }

  method Evaluate(coefficients: seq<int>, x: int) returns (value: int)
    ensures value == Value(coefficients, x)
  {
    value := 0;
    var k := |coefficients|;
    while k > 0
      //<
      invariant 0 <= k <= |coefficients|
      invariant value == Value(coefficients[k..], x)
      //>
    {
      k := k - 1;
      assert coefficients[k..][1..] == coefficients[k + 1..];
      value := coefficients[k] + x * value;
    }
    assert coefficients[0..] == coefficients;
  }
}

//@ pairs-with-sum, level 5, annotate
//@ Counts the pairs that add up to a total with two loops; the count is described by functions.
module PairsWithSum {
  function Row(total: int, a: int, last: nat): nat
  {
    if last == 0 then 0
    else Row(total, a, last - 1) + (if a + last == total then 1 else 0)
  }

  function Table(total: int, first: nat, last: nat): nat
  {
    if first == 0 then 0 else Table(total, first - 1, last) + Row(total, first, last)
  }

  method Count(total: int, size: nat) returns (hits: nat)
    ensures hits == Table(total, size, size)
  {
    hits := 0;
    var a := 0;
    while a < size
      //<
      invariant a <= size
      invariant hits == Table(total, a, size)
      //>
    {
      a := a + 1;
      var b := 0;
      while b < size
        //<
        invariant b <= size
        invariant hits == Table(total, a - 1, size) + Row(total, a, b)
        //>
      {
        b := b + 1;
        if a + b == total {
          hits := hits + 1;
        }
      }
    }
  }
}
