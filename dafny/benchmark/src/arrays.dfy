// Loops over arrays: which part is done, and what is known of it?

//@ all-ones, level 1, invariants
//@ Every place of an array gets a one.
module AllOnes {
  method Fill(a: array<int>)
    modifies a
    ensures forall i :: 0 <= i < a.Length ==> a[i] == 1
  {
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant forall i :: 0 <= i < k ==> a[i] == 1
      //>
    {
      a[k] := 1;
      k := k + 1;
    }
  }
}

//@ count-places, level 1, invariants
//@ Counting the places of an array one by one gives its length.
module CountPlaces {
  method Count(a: array<int>) returns (places: nat)
    ensures places == a.Length
  {
    places := 0;
    while places < a.Length
      //<
      invariant places <= a.Length
      //>
    {
      places := places + 1;
    }
  }
}

//@ clear-range, level 2, invariants
//@ Zeros are written between two places; the rest of the array stays.
module ClearRange {
  method Clear(a: array<int>, low: nat, high: nat)
    requires low <= high <= a.Length
    modifies a
    ensures forall i :: low <= i < high ==> a[i] == 0
    ensures forall i :: 0 <= i < low || high <= i < a.Length ==> a[i] == old(a[i])
  {
    var k := low;
    while k < high
      //<
      invariant low <= k <= high
      invariant forall i :: low <= i < k ==> a[i] == 0
      invariant forall i :: 0 <= i < low || k <= i < a.Length ==> a[i] == old(a[i])
      //>
    {
      a[k] := 0;
      k := k + 1;
    }
  }
}

//@ last-place, level 2, invariants
//@ The last place of a value, or -1 when it does not occur; the search runs from the end.
module LastPlace {
  method Find(a: array<int>, x: int) returns (place: int)
    ensures -1 <= place < a.Length
    ensures place >= 0 ==> a[place] == x
    ensures forall i :: place < i < a.Length ==> a[i] != x
  {
    place := a.Length - 1;
    while place >= 0 && a[place] != x
      //<
      invariant -1 <= place < a.Length
      invariant forall i :: place < i < a.Length ==> a[i] != x
      //>
    {
      place := place - 1;
    }
  }
}

//@ sum-up-to, level 2, invariants
//@ The sum of an array, described by a function that reads the array.
module SumUpTo {
  function Sum(a: array<int>, n: nat): int
    requires n <= a.Length
    reads a
  {
    if n == 0 then 0 else Sum(a, n - 1) + a[n - 1]
  }

  method Total(a: array<int>) returns (total: int)
    ensures total == Sum(a, a.Length)
  {
    total := 0;
    var i := 0;
    while i != a.Length
      //<
      invariant 0 <= i <= a.Length
      invariant total == Sum(a, i)
      //>
    {
      total := total + a[i];
      i := i + 1;
    }
  }
}

//@ first-difference, level 2, invariants
//@ The first place where two arrays of the same length differ, or their length.
module FirstDifference {
  method Mismatch(a: array<int>, b: array<int>) returns (place: nat)
    requires a.Length == b.Length
    ensures place <= a.Length
    ensures forall i :: 0 <= i < place ==> a[i] == b[i]
    ensures place < a.Length ==> a[place] != b[place]
  {
    place := 0;
    while place < a.Length && a[place] == b[place]
      //<
      invariant place <= a.Length
      invariant forall i :: 0 <= i < place ==> a[i] == b[i]
      //>
    {
      place := place + 1;
    }
  }
}

//@ add-in-place, level 3, invariants
//@ One array is added to another, place by place.
module AddInPlace {
  method Add(a: array<int>, b: array<int>)
    requires a != b && a.Length == b.Length
    modifies a
    ensures forall i :: 0 <= i < a.Length ==> a[i] == old(a[i]) + b[i]
  {
    var k := a.Length;
    while k > 0
      //<
      invariant 0 <= k <= a.Length
      invariant forall i :: k <= i < a.Length ==> a[i] == old(a[i]) + b[i]
      invariant forall i :: 0 <= i < k ==> a[i] == old(a[i])
      //>
    {
      k := k - 1;
      a[k] := a[k] + b[k];
    }
  }
}

//@ reversed-copy, level 3, invariants
//@ A new array holds the elements in the opposite order.
module ReversedCopy {
  method Reverse(a: array<int>) returns (b: array<int>)
    ensures b.Length == a.Length
    ensures forall i :: 0 <= i < a.Length ==> b[i] == a[a.Length - 1 - i]
  {
    b := new int[a.Length];
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant forall i :: 0 <= i < k ==> b[i] == a[a.Length - 1 - i]
      //>
    {
      b[k] := a[a.Length - 1 - k];
      k := k + 1;
    }
  }
}

//@ interleave, level 3, invariants
//@ Two arrays are put into one in turn: one element of the first, one of the second.
module Interleave {
  method Zip(a: array<int>, b: array<int>) returns (c: array<int>)
    requires a.Length == b.Length
    ensures c.Length == 2 * a.Length
    ensures forall i :: 0 <= i < a.Length ==> c[2 * i] == a[i] && c[2 * i + 1] == b[i]
  {
    c := new int[2 * a.Length];
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant forall i :: 0 <= i < k ==> c[2 * i] == a[i] && c[2 * i + 1] == b[i]
      //>
    {
      c[2 * k] := a[k];
      c[2 * k + 1] := b[k];
      k := k + 1;
    }
  }
}

//@ differences, level 3, invariants
//@ The differences of neighbours: one fewer than there are elements.
module Differences {
  method Neighbours(a: array<int>) returns (d: array<int>)
    requires a.Length > 0
    ensures d.Length == a.Length - 1
    ensures forall i :: 0 <= i < d.Length ==> d[i] == a[i + 1] - a[i]
  {
    d := new int[a.Length - 1];
    var k := 1;
    while k < a.Length
      //<
      invariant 1 <= k <= a.Length
      invariant forall i :: 0 <= i < k - 1 ==> d[i] == a[i + 1] - a[i]
      //>
    {
      d[k - 1] := a[k] - a[k - 1];
      k := k + 1;
    }
  }
}

//@ where-it-flips, level 3, invariants
//@ A row of lamps, the first off and the last on, has a place where off is followed by on.
module WhereItFlips {
  method Flip(lamps: array<bool>) returns (place: nat)
    requires lamps.Length >= 2
    requires !lamps[0] && lamps[lamps.Length - 1]
    ensures place + 1 < lamps.Length
    ensures !lamps[place] && lamps[place + 1]
  {
    place := 0;
    var high := lamps.Length - 1;
    while place + 1 < high
      //<
      invariant 0 <= place < high < lamps.Length
      invariant !lamps[place] && lamps[high]
      //>
    {
      var middle := (place + high) / 2;
      if lamps[middle] {
        high := middle;
      } else {
        place := middle;
      }
    }
  }
}

//@ keep-positive, level 3, invariants
//@ The positive elements are gathered at the front of a new array.
module KeepPositive {
  method Gather(a: array<int>) returns (b: array<int>, count: nat)
    ensures b.Length == a.Length
    ensures count <= b.Length
    ensures forall i :: 0 <= i < count ==> b[i] > 0
    ensures forall i :: 0 <= i < count ==> b[i] in a[..]
  {
    b, count := new int[a.Length], 0;
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant count <= k
      invariant forall i :: 0 <= i < count ==> b[i] > 0
      invariant forall i :: 0 <= i < count ==> b[i] in a[..]
      //>
    {
      if a[k] > 0 {
        b[count] := a[k];
        count := count + 1;
      }
      k := k + 1;
    }
  }
}

//@ palindrome, level 3, invariants
//@ Whether an array reads the same from both ends; the two ends are compared first.
module Palindrome {
  method Check(a: array<int>) returns (same: bool)
    ensures same <==> (forall i :: 0 <= i < a.Length ==> a[i] == a[a.Length - 1 - i])
  {
    same := true;
    var low, high := 0, a.Length - 1;
    while low < high && same
      //<
      invariant 0 <= low
      invariant low + high == a.Length - 1
      invariant low <= high + 2
      invariant same ==> (forall i :: 0 <= i < low ==> a[i] == a[a.Length - 1 - i])
      invariant same ==> (forall i :: high < i < a.Length ==> a[i] == a[a.Length - 1 - i])
      invariant !same ==> (exists i :: 0 <= i < a.Length && a[i] != a[a.Length - 1 - i])
      decreases high - low, same
      //>
    {
      if a[low] == a[high] {
        low, high := low + 1, high - 1;
      } else {
        assert a[low] != a[a.Length - 1 - low];
        same := false;
      }
    }
  }
}

//@ reverse-in-place, level 4, invariants
//@ An array is reversed by swapping its ends, moving inwards.
module ReverseInPlace {
  method Reverse(a: array<int>)
    modifies a
    ensures forall i :: 0 <= i < a.Length ==> a[i] == old(a[a.Length - 1 - i])
  {
    var low, high := 0, a.Length - 1;
    while low < high
      //<
      invariant 0 <= low <= high + 2
      invariant low + high == a.Length - 1
      invariant forall i :: 0 <= i < low || high < i < a.Length ==> a[i] == old(a[a.Length - 1 - i])
      invariant forall i :: low <= i <= high ==> a[i] == old(a[i])
      //>
    {
      a[low], a[high] := a[high], a[low];
      low, high := low + 1, high - 1;
    }
  }
}

//@ rotate-left, level 4, invariants
//@ Every element moves one place to the left, the first one to the end.
module RotateLeft {
  method Rotate(a: array<int>)
    requires a.Length > 0
    modifies a
    ensures forall i :: 0 <= i < a.Length - 1 ==> a[i] == old(a[i + 1])
    ensures a[a.Length - 1] == old(a[0])
  {
    var first := a[0];
    var k := 0;
    while k < a.Length - 1
      //<
      invariant 0 <= k <= a.Length - 1
      invariant forall i :: 0 <= i < k ==> a[i] == old(a[i + 1])
      invariant forall i :: k <= i < a.Length ==> a[i] == old(a[i])
      //>
    {
      a[k] := a[k + 1];
      k := k + 1;
    }
    a[k] := first;
  }
}

//@ count-in-array, level 4, annotate
//@ How often a value occurs in an array; the count is defined on sequences.
module CountInArray {
  function Count(s: seq<int>, x: int): nat
  {
    if |s| == 0 then 0 else Count(s[..|s| - 1], x) + (if s[|s| - 1] == x then 1 else 0)
  }

  method Occurrences(a: array<int>, x: int) returns (times: nat)
    ensures times == Count(a[..], x)
  {
    times := 0;
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant times == Count(a[..k], x)
      //>
    {
      if a[k] == x {
        times := times + 1;
      }
      k := k + 1;
      //<
      assert a[..k][..k - 1] == a[..k - 1];
      //>
    }
    //<
    assert a[..k] == a[..];
    //>
  }
}

//@ longest-run, level 5, invariants
//@ A longest stretch of equal neighbours: where it starts, and that no other one is longer.
module LongestRun {
  predicate Same(a: array<int>, i: int, j: int)
    requires 0 <= i < j <= a.Length
    reads a
  {
    forall k :: i <= k < j ==> a[k] == a[i]
  }

  method Longest(a: array<int>) returns (first: nat, best: nat)
    requires a.Length > 0
    ensures 0 < best <= a.Length - first
    ensures Same(a, first, first + best)
    ensures forall i, j :: 0 <= i < j <= a.Length && Same(a, i, j) ==> j - i <= best
  {
    first, best := 0, 1;
    var start, k := 0, 1;
    while k < a.Length
      //<
      invariant 0 <= start < k <= a.Length
      invariant k - start <= best
      invariant 0 < best <= k - first
      invariant Same(a, start, k)
      invariant Same(a, first, first + best)
      invariant forall i :: 0 <= i < k && Same(a, i, k) ==> start <= i
      invariant forall i, j :: 0 <= i < j <= k && Same(a, i, j) ==> j - i <= best
      //>
    {
      var next := k + 1;
      assert forall i :: 0 <= i < k && Same(a, i, next) ==> Same(a, i, k);
      if a[k] != a[k - 1] {
        assert forall i :: 0 <= i < k ==> !Same(a, i, next);
        start := k;
      }
      k := next;
      if k - start > best {
        first, best := start, k - start;
      }
    }
  }
}

//@ best-trade, level 4, invariants
//@ The greatest gain from buying on one day and selling on a later one or the same.
module BestTrade {
  method Gain(prices: array<int>) returns (gain: int)
    requires prices.Length > 0
    ensures forall i, j :: 0 <= i <= j < prices.Length ==> prices[j] - prices[i] <= gain
    ensures exists i, j :: 0 <= i <= j < prices.Length && prices[j] - prices[i] == gain
  {
    var cheapest, buy, sell, k := 0, 0, 0, 1;
    gain := 0;
    while k < prices.Length
      //<
      invariant 1 <= k <= prices.Length
      invariant 0 <= cheapest < k
      invariant 0 <= buy <= sell < k
      invariant prices[sell] - prices[buy] == gain
      invariant forall i :: 0 <= i < k ==> prices[cheapest] <= prices[i]
      invariant forall i, j :: 0 <= i <= j < k ==> prices[j] - prices[i] <= gain
      //>
    {
      if prices[k] < prices[cheapest] {
        cheapest := k;
      }
      if prices[k] - prices[cheapest] > gain {
        buy, sell := cheapest, k;
        gain := prices[k] - prices[cheapest];
      }
      k := k + 1;
    }
  }
}

//@ largest-stretch-sum, level 5, invariants
//@ The largest sum of a stretch of neighbours, in one pass.
module LargestStretchSum {
  function Sum(a: array<int>, from: nat, end: nat): int
    requires from <= end <= a.Length
    reads a
    decreases end
  {
    if from == end then 0 else Sum(a, from, end - 1) + a[end - 1]
  }

  method Largest(a: array<int>) returns (best: int)
    ensures forall i, j :: 0 <= i <= j <= a.Length ==> Sum(a, i, j) <= best
    ensures exists i, j :: 0 <= i <= j <= a.Length && Sum(a, i, j) == best
  {
    best := 0;
    var here, start, k := 0, 0, 0;
    assert Sum(a, 0, 0) == best;
    while k < a.Length
      //<
      invariant 0 <= start <= k <= a.Length
      invariant here == Sum(a, start, k)
      invariant here >= 0
      invariant forall i :: 0 <= i <= k ==> Sum(a, i, k) <= here
      invariant forall i, j :: 0 <= i <= j <= k ==> Sum(a, i, j) <= best
      invariant exists i, j :: 0 <= i <= j <= k && Sum(a, i, j) == best
      //>
    {
      here := here + a[k];
      k := k + 1;
      if here < 0 {
        here, start := 0, k;
      }
      if here > best {
        best := here;
      }
    }
  }
}

//@ fill-table, level 4, annotate
//@ A table gets the sum of its row and column number in every cell.
module FillTable {
  method Fill(table: array2<int>)
    modifies table
    ensures forall r, c :: 0 <= r < table.Length0 && 0 <= c < table.Length1 ==> table[r, c] == r + c
  {
    var i := 0;
    while i < table.Length0
      //<
      invariant 0 <= i <= table.Length0
      invariant forall r, c :: 0 <= r < i && 0 <= c < table.Length1 ==> table[r, c] == r + c
      //>
    {
      var j := 0;
      while j < table.Length1
        //<
        invariant 0 <= j <= table.Length1
        invariant forall r, c :: 0 <= r < i && 0 <= c < table.Length1 ==> table[r, c] == r + c
        invariant forall c :: 0 <= c < j ==> table[i, c] == i + c
        //>
      {
        table[i, j] := i + j;
        j := j + 1;
      }
      i := i + 1;
    }
  }
}

//@ without-repeats, level 5, invariants
//@ The different elements of a sorted array are written to the front of a new one, still in order.
module WithoutRepeats {
  method Squeeze(a: array<int>) returns (b: array<int>, count: nat)
    requires forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j]
    ensures b.Length == a.Length && count <= b.Length
    ensures forall i, j :: 0 <= i < j < count ==> b[i] < b[j]
    ensures forall i :: 0 <= i < a.Length ==> a[i] in b[..count]
  {
    b, count := new int[a.Length], 0;
    var k := 0;
    while k < a.Length
      //<
      invariant 0 <= k <= a.Length
      invariant count <= k
      invariant k > 0 ==> count > 0 && b[count - 1] == a[k - 1]
      invariant forall i, j :: 0 <= i < j < count ==> b[i] < b[j]
      invariant forall i :: 0 <= i < k ==> a[i] in b[..count]
      //>
    {
      if k == 0 || a[k - 1] < a[k] {
        b[count] := a[k];
        assert b[..count + 1] == b[..count] + [a[k]];
        count := count + 1;
      } else {
        assert a[k] == a[k - 1];
      }
      k := k + 1;
    }
  }
}
