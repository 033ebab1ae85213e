// A callee's modifies clause is taken for well-formed at the call, before its precondition holds.
function Frame(k: int): set<object>
  requires k > 0
  ensures k > 0
{ {} }

method Touch(k: int)
  requires k > 0
  modifies Frame(k)
{ }

method Bug(k: int) ensures k > 0 { Touch(k); }
