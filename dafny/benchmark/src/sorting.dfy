// Steps of sorting: of arrays in place, of sequences and lists by functions.

//@ upper-bound, level 1, invariants
//@ A number that is at least every element of a sequence, found by looking at all of them.
module UpperBound {
  method Bound(s: seq<int>) returns (bound: int)
    ensures forall i :: 0 <= i < |s| ==> s[i] <= bound
  {
    bound := 0;
    var k := 0;
    while k < |s|
      //<
      invariant 0 <= k <= |s|
      invariant forall i :: 0 <= i < k ==> s[i] <= bound
      //>
    {
      if s[k] > bound {
        bound := s[k];
      }
      k := k + 1;
    }
  }
}

//@ is-sorted, level 2, invariants
//@ Whether an array is in order, found by comparing neighbours until one pair is wrong.
module IsSorted {
  method Check(a: array<int>) returns (sorted: bool)
    ensures sorted ==> (forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j])
    ensures !sorted ==> (exists i, j :: 0 <= i < j < a.Length && a[i] > a[j])
  {
    sorted := true;
    var k := 1;
    while k < a.Length && sorted
      //<
      invariant 1 <= k
      invariant sorted ==> k <= a.Length || a.Length == 0
      invariant sorted ==> (forall i, j :: 0 <= i < j < k && j < a.Length ==> a[i] <= a[j])
      invariant !sorted ==> (exists i, j :: 0 <= i < j < a.Length && a[i] > a[j])
      decreases a.Length - k, sorted
      //>
    {
      if a[k - 1] > a[k] {
        sorted := false;
      } else {
        k := k + 1;
      }
    }
  }
}

//@ place-of-least, level 2, invariants
//@ The place of the least element of the rest of an array.
module PlaceOfLeast {
  method Least(a: array<int>, start: nat) returns (place: nat)
    requires start < a.Length
    ensures start <= place < a.Length
    ensures forall i :: start <= i < a.Length ==> a[place] <= a[i]
  {
    place := start;
    var k := start + 1;
    while k < a.Length
      //<
      invariant start < k <= a.Length
      invariant start <= place < k
      invariant forall i :: start <= i < k ==> a[place] <= a[i]
      //>
    {
      if a[k] < a[place] {
        place := k;
      }
      k := k + 1;
    }
  }
}

//@ bubble-up, level 3, invariants
//@ One pass of neighbour swaps brings the greatest element to the end and loses none.
module BubbleUp {
  method Pass(a: array<int>)
    requires a.Length > 0
    modifies a
    ensures forall i :: 0 <= i < a.Length ==> a[i] <= a[a.Length - 1]
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    var k := 0;
    while k < a.Length - 1
      //<
      invariant 0 <= k < a.Length
      invariant forall i :: 0 <= i < k ==> a[i] <= a[k]
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      if a[k] > a[k + 1] {
        a[k], a[k + 1] := a[k + 1], a[k];
      }
      k := k + 1;
    }
  }
}

//@ two-colours, level 3, invariants
//@ All off lamps are brought before the lamps that are on.
module TwoColours {
  method Separate(lamps: array<bool>) returns (border: nat)
    modifies lamps
    ensures border <= lamps.Length
    ensures forall i :: 0 <= i < border ==> !lamps[i]
    ensures forall i :: border <= i < lamps.Length ==> lamps[i]
    ensures multiset(lamps[..]) == multiset(old(lamps[..]))
  {
    border := 0;
    var k := 0;
    while k < lamps.Length
      //<
      invariant 0 <= border <= k <= lamps.Length
      invariant forall i :: 0 <= i < border ==> !lamps[i]
      invariant forall i :: border <= i < k ==> lamps[i]
      invariant multiset(lamps[..]) == multiset(old(lamps[..]))
      //>
    {
      if !lamps[k] {
        lamps[border], lamps[k] := lamps[k], lamps[border];
        border := border + 1;
      }
      k := k + 1;
    }
  }
}

//@ split-at-pivot, level 4, invariants
//@ Two places move towards each other until all small elements stand before all large ones.
module SplitAtPivot {
  method Split(a: array<int>, pivot: int) returns (border: nat)
    modifies a
    ensures border <= a.Length
    ensures forall i :: 0 <= i < border ==> a[i] < pivot
    ensures forall i :: border <= i < a.Length ==> a[i] >= pivot
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    border := 0;
    var high := a.Length;
    while border < high
      //<
      invariant 0 <= border <= high <= a.Length
      invariant forall i :: 0 <= i < border ==> a[i] < pivot
      invariant forall i :: high <= i < a.Length ==> a[i] >= pivot
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      if a[border] < pivot {
        border := border + 1;
      } else {
        high := high - 1;
        a[border], a[high] := a[high], a[border];
      }
    }
  }
}

//@ three-colours, level 5, invariants
//@ Elements below, equal to and above a value are brought into three zones in one pass.
module ThreeColours {
  method Sort(a: array<int>, middle: int) returns (first: nat, last: nat)
    modifies a
    ensures first <= last <= a.Length
    ensures forall i :: 0 <= i < first ==> a[i] < middle
    ensures forall i :: first <= i < last ==> a[i] == middle
    ensures forall i :: last <= i < a.Length ==> a[i] > middle
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    first, last := 0, a.Length;
    var k := 0;
    while k < last
      //<
      invariant 0 <= first <= k <= last <= a.Length
      invariant forall i :: 0 <= i < first ==> a[i] < middle
      invariant forall i :: first <= i < k ==> a[i] == middle
      invariant forall i :: last <= i < a.Length ==> a[i] > middle
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      if a[k] < middle {
        a[first], a[k] := a[k], a[first];
        first, k := first + 1, k + 1;
      } else if a[k] == middle {
        k := k + 1;
      } else {
        last := last - 1;
        a[k], a[last] := a[last], a[k];
      }
    }
  }
}

//@ selection-sort, level 5, annotate
//@ The least of the rest is put in its place, again and again.
module SelectionSort {
  method Sort(a: array<int>)
    modifies a
    ensures forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j]
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    var done := 0;
    while done < a.Length
      //<
      invariant 0 <= done <= a.Length
      invariant forall i, j :: 0 <= i < j < done ==> a[i] <= a[j]
      invariant forall i, j :: 0 <= i < done <= j < a.Length ==> a[i] <= a[j]
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      var smallest, k := done, done + 1;
      while k < a.Length
        //<
        invariant done < k <= a.Length
        invariant done <= smallest < k
        invariant forall i :: done <= i < k ==> a[smallest] <= a[i]
        //>
      {
        if a[k] < a[smallest] {
          smallest := k;
        }
        k := k + 1;
      }
      a[done], a[smallest] := a[smallest], a[done];
      done := done + 1;
    }
  }
}

//@ insertion-sort, level 5, annotate
//@ Each element sinks into the sorted part before it.
module InsertionSort {
  method Sort(a: array<int>)
    modifies a
    ensures forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j]
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    var done := 0;
    while done < a.Length
      //<
      invariant 0 <= done <= a.Length
      invariant forall i, j :: 0 <= i < j < done ==> a[i] <= a[j]
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      var k := done;
      while k > 0 && a[k - 1] > a[k]
        //<
        invariant 0 <= k <= done
        invariant forall i, j :: 0 <= i < j <= done && j != k ==> a[i] <= a[j]
        invariant multiset(a[..]) == multiset(old(a[..]))
        //>
      {
        a[k - 1], a[k] := a[k], a[k - 1];
        k := k - 1;
      }
      done := done + 1;
    }
  }
}

//@ bubble-sort, level 5, annotate
//@ Passes of neighbour swaps, each one shorter by one place.
module BubbleSort {
  method Sort(a: array<int>)
    modifies a
    ensures forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j]
    ensures multiset(a[..]) == multiset(old(a[..]))
  {
    var end := a.Length;
    while end > 1
      //<
      invariant 0 <= end <= a.Length
      invariant forall i, j :: 0 <= i < j < a.Length && end <= j ==> a[i] <= a[j]
      invariant multiset(a[..]) == multiset(old(a[..]))
      //>
    {
      var k := 1;
      while k < end
        //<
        invariant 1 <= k <= end
        invariant forall i :: 0 <= i < k ==> a[i] <= a[k - 1]
        invariant forall i, j :: 0 <= i < j < a.Length && end <= j ==> a[i] <= a[j]
        invariant multiset(a[..]) == multiset(old(a[..]))
        //>
      {
        if a[k - 1] > a[k] {
          a[k - 1], a[k] := a[k], a[k - 1];
        }
        k := k + 1;
      }
      end := end - 1;
    }
  }
}

//@ neighbours-in-order, level 2, statements
//@ If neighbours are in order, so is every pair.
module NeighboursInOrder {
  lemma {:induction false} Pair(s: seq<int>, i: nat, j: nat)
    requires i <= j < |s|
    requires forall k :: 0 < k < |s| ==> s[k - 1] <= s[k]
    ensures s[i] <= s[j]
    decreases j
  {
    //<
    if i < j {
      Pair(s, i, j - 1);
      assert s[j - 1] <= s[j];
    }
    //>
  }
}

//@ bound-carries-over, level 3, statements
//@ Two sequences hold the same elements; what bounds one bounds the other.
module BoundCarriesOver {
  lemma Carries(s: seq<int>, t: seq<int>, bound: int)
    requires multiset(s) == multiset(t)
    requires forall i :: 0 <= i < |s| ==> s[i] <= bound
    ensures forall i :: 0 <= i < |t| ==> t[i] <= bound
  {
    //<
    forall i | 0 <= i < |t|
      ensures t[i] <= bound
    {
      assert t[i] in multiset(s);
      assert t[i] in s;
    }
    //>
  }
}

//@ insert-keeps-elements, level 3, statements
//@ Inserting into a sequence adds just the one element.
module InsertKeepsElements {
  function Insert(x: int, s: seq<int>): seq<int>
  {
    if |s| == 0 || x <= s[0] then [x] + s else [s[0]] + Insert(x, s[1..])
  }

  lemma {:induction false} Elements(x: int, s: seq<int>)
    ensures multiset(Insert(x, s)) == multiset(s) + multiset{x}
  {
    //<
    if |s| > 0 && x > s[0] {
      Elements(x, s[1..]);
      assert s == [s[0]] + s[1..];
    }
    //>
  }
}

//@ insert-keeps-order, level 4, statements
//@ Inserting into a sorted sequence at the first fitting place keeps it sorted.
module InsertKeepsOrder {
  function Insert(x: int, s: seq<int>): seq<int>
  {
    if |s| == 0 || x <= s[0] then [x] + s else [s[0]] + Insert(x, s[1..])
  }

  predicate Sorted(s: seq<int>)
  {
    forall i, j :: 0 <= i < j < |s| ==> s[i] <= s[j]
  }

  lemma {:induction false} Order(x: int, s: seq<int>)
    requires Sorted(s)
    ensures Sorted(Insert(x, s))
    ensures forall y :: y in Insert(x, s) ==> y == x || y in s
  {
    //<
    if |s| > 0 && x > s[0] {
      var rest, longer := s[1..], Insert(x, s[1..]);
      Order(x, rest);
      forall i | 0 <= i < |longer|
        ensures s[0] <= longer[i]
      {
        assert longer[i] in longer;
        assert longer[i] == x || longer[i] in rest;
      }
      assert Insert(x, s) == [s[0]] + longer;
      assert forall y :: y in rest ==> y in s;
    }
    //>
  }
}

//@ sort-by-inserting, level 4, statements
//@ Sorting a list by inserting its elements one by one gives a sorted list.
module SortByInserting {
  datatype List = Nil | Cons(head: int, tail: List)

  predicate Sorted(list: List)
  {
    match list
    case Nil => true
    case Cons(x, rest) => (rest.Nil? || x <= rest.head) && Sorted(rest)
  }

  function Insert(x: int, list: List): List
  {
    match list
    case Nil => Cons(x, Nil)
    case Cons(y, rest) => if x <= y then Cons(x, list) else Cons(y, Insert(x, rest))
  }

  function Sort(list: List): List
  {
    match list
    case Nil => Nil
    case Cons(x, rest) => Insert(x, Sort(rest))
  }

  lemma {:induction false} InsertOrder(x: int, list: List)
    requires Sorted(list)
    ensures Sorted(Insert(x, list))
  {
    match list {
      case Nil =>
      case Cons(y, rest) => InsertOrder(x, rest);
    }
  }

  lemma {:induction false} SortOrder(list: List)
    ensures Sorted(Sort(list))
  {
    //<
    match list {
      case Nil =>
      case Cons(x, rest) =>
        SortOrder(rest);
        InsertOrder(x, Sort(rest));
    }
    //>
  }
}

//@ sort-loses-nothing, level 4, statements
//@ Sorting a list by inserting keeps how often each number occurs.
module SortLosesNothing {
  datatype List = Nil | Cons(head: int, tail: List)

  function Count(list: List, z: int): nat
  {
    match list
    case Nil => 0
    case Cons(x, rest) => Count(rest, z) + (if x == z then 1 else 0)
  }

  function Insert(x: int, list: List): List
  {
    match list
    case Nil => Cons(x, Nil)
    case Cons(y, rest) => if x <= y then Cons(x, list) else Cons(y, Insert(x, rest))
  }

  function Sort(list: List): List
  {
    match list
    case Nil => Nil
    case Cons(x, rest) => Insert(x, Sort(rest))
  }

  lemma {:induction false} InsertCount(x: int, list: List, z: int)
    ensures Count(Insert(x, list), z) == Count(list, z) + (if x == z then 1 else 0)
  {
    match list {
      case Nil =>
      case Cons(y, rest) => InsertCount(x, rest, z);
    }
  }

  lemma {:induction false} SortCount(list: List, z: int)
    ensures Count(Sort(list), z) == Count(list, z)
  {
    //<
    match list {
      case Nil =>
      case Cons(x, rest) =>
        SortCount(rest, z);
        InsertCount(x, Sort(rest), z);
    }
    //>
  }
}

//@ merge-keeps-elements, level 4, statements
//@ Merging two sequences keeps all elements of both.
module MergeKeepsElements {
  function Merge(s: seq<int>, t: seq<int>): seq<int>
    decreases |s| + |t|
  {
    if |s| == 0 then t
    else if |t| == 0 then s
    else if s[0] <= t[0] then [s[0]] + Merge(s[1..], t)
    else [t[0]] + Merge(s, t[1..])
  }

  lemma {:induction false} Elements(s: seq<int>, t: seq<int>)
    ensures multiset(Merge(s, t)) == multiset(s) + multiset(t)
    decreases |s| + |t|
  {
    //<
    if |s| > 0 && |t| > 0 {
      if s[0] <= t[0] {
        Elements(s[1..], t);
        assert s == [s[0]] + s[1..];
      } else {
        Elements(s, t[1..]);
        assert t == [t[0]] + t[1..];
      }
    }
    //>
  }
}

//@ merge-keeps-order, level 5, statements
//@ Merging two sorted sequences gives a sorted one.
module MergeKeepsOrder {
  function Merge(s: seq<int>, t: seq<int>): seq<int>
    decreases |s| + |t|
  {
    if |s| == 0 then t
    else if |t| == 0 then s
    else if s[0] <= t[0] then [s[0]] + Merge(s[1..], t)
    else [t[0]] + Merge(s, t[1..])
  }

  predicate Sorted(s: seq<int>)
  {
    forall i, j :: 0 <= i < j < |s| ==> s[i] <= s[j]
  }

  predicate Above(s: seq<int>, low: int)
  {
    forall i :: 0 <= i < |s| ==> low <= s[i]
  }

  lemma {:induction false} MergeAbove(s: seq<int>, t: seq<int>, low: int)
    requires Above(s, low) && Above(t, low)
    ensures Above(Merge(s, t), low)
    decreases |s| + |t|
  {
    if |s| > 0 && |t| > 0 {
      if s[0] <= t[0] {
        MergeAbove(s[1..], t, low);
      } else {
        MergeAbove(s, t[1..], low);
      }
    }
  }

  lemma {:induction false} Order(s: seq<int>, t: seq<int>)
    requires Sorted(s) && Sorted(t)
    ensures Sorted(Merge(s, t))
    decreases |s| + |t|
  {
    //<
    if |s| > 0 && |t| > 0 {
      if s[0] <= t[0] {
        Order(s[1..], t);
        MergeAbove(s[1..], t, s[0]);
      } else {
        Order(s, t[1..]);
        MergeAbove(s, t[1..], t[0]);
      }
    }
    //>
  }
}

//@ sorted-is-unique, level 5, statements
//@ Two sorted sequences with the same elements are the same sequence.
module SortedIsUnique {
  predicate Sorted(s: seq<int>)
  {
    forall i, j :: 0 <= i < j < |s| ==> s[i] <= s[j]
  }

  lemma {:induction false} Unique(s: seq<int>, t: seq<int>)
    requires Sorted(s) && Sorted(t)
    requires multiset(s) == multiset(t)
    ensures s == t
    decreases |s|
  {
    //<
    assert |s| == |multiset(s)| == |multiset(t)| == |t|;
    if |s| > 0 {
      assert s[0] in multiset(t) && t[0] in multiset(s);
      assert s[0] in t && t[0] in s;
      assert s[0] == t[0];
      assert s == [s[0]] + s[1..] && t == [t[0]] + t[1..];
      assert multiset(s[1..]) == multiset(s) - multiset{s[0]};
      assert multiset(t[1..]) == multiset(t) - multiset{t[0]};
      Unique(s[1..], t[1..]);
    }
    //>
  }
}

//@ merge-two-arrays, level 5, invariants
//@ Two sorted arrays are merged into a new one, which is sorted too.
module MergeTwoArrays {
  method Merge(a: array<int>, b: array<int>) returns (c: array<int>)
    requires forall i, j :: 0 <= i < j < a.Length ==> a[i] <= a[j]
    requires forall i, j :: 0 <= i < j < b.Length ==> b[i] <= b[j]
    ensures c.Length == a.Length + b.Length
    ensures forall i, j :: 0 <= i < j < c.Length ==> c[i] <= c[j]
  {
    c := new int[a.Length + b.Length];
    var p, q := 0, 0;
    while p + q < c.Length
      //<
      invariant 0 <= p <= a.Length && 0 <= q <= b.Length
      invariant forall i, j :: 0 <= i < j < p + q ==> c[i] <= c[j]
      invariant forall i, j :: 0 <= i < p + q && p <= j < a.Length ==> c[i] <= a[j]
      invariant forall i, j :: 0 <= i < p + q && q <= j < b.Length ==> c[i] <= b[j]
      //>
    {
      if q == b.Length || (p < a.Length && a[p] <= b[q]) {
        c[p + q] := a[p];
        p := p + 1;
      } else {
        c[p + q] := b[q];
        q := q + 1;
      }
    }
  }
}
