// In a call by a two-state lemma its own measure is taken in the earlier state, so it decreases for ever.
class C { var x: bool }
twostate lemma L(c: C) requires !c.x && old(c.x) ensures false decreases c.x { L(c); }
method S(c: C) requires c.x modifies c ensures false { c.x := false; L(c); }
method M() ensures false { var c := new C; c.x := true; S(c); }
