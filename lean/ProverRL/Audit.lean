import Lean

/-!
What a declaration states and what it rests on, asked in Lean itself.

`#proverrl_audit t` logs the kind, the number of universe parameters, the axioms and the whole
structure of the type of `t`. `#proverrl_same s t` fails unless `s` and `t` state the same, up to
the names of bound variables and of universe parameters.

Not run where it was written. The Python package does not use it: it asks with `#check` and
`#print axioms`, which every Lean has. It is for people who audit a file by hand.
-/

open Lean Elab Command

namespace ProverRL

/-- The kind of a constant, in the words of the kernel. -/
def kindOf : ConstantInfo → String
  | .axiomInfo _ => "axiom"
  | .defnInfo _ => "definition"
  | .thmInfo _ => "theorem"
  | .opaqueInfo _ => "opaque"
  | .quotInfo _ => "quotient"
  | .inductInfo _ => "inductive"
  | .ctorInfo _ => "constructor"
  | .recInfo _ => "recursor"

/-- The type of a constant with its universe parameters numbered instead of named. -/
def numberedType (info : ConstantInfo) : Expr :=
  let levels := (List.range info.levelParams.length).map fun i =>
    Level.param (.num `u i)
  info.type.instantiateLevelParams info.levelParams levels

/-- Whether two constants state the same. `==` on expressions ignores names of bound variables. -/
def sameStatement (s t : ConstantInfo) : Bool :=
  s.levelParams.length == t.levelParams.length && numberedType s == numberedType t

end ProverRL

/-- Log the kind, universe parameters, axioms and type of a declaration. -/
elab "#proverrl_audit " id:ident : command => do
  let name ← liftCoreM <| realizeGlobalConstNoOverloadWithInfo id
  let info ← getConstInfo name
  let axioms ← liftCoreM <| collectAxioms name
  let sorted := axioms.toList.map toString
  logInfo m!"{name}\n{ProverRL.kindOf info}\n{info.levelParams.length}\n{sorted}\n{repr (ProverRL.numberedType info)}"

/-- Fail unless two declarations state the same. -/
elab "#proverrl_same " s:ident t:ident : command => do
  let first ← getConstInfo (← liftCoreM <| realizeGlobalConstNoOverloadWithInfo s)
  let second ← getConstInfo (← liftCoreM <| realizeGlobalConstNoOverloadWithInfo t)
  unless ProverRL.sameStatement first second do
    throwError "{first.name} and {second.name} do not state the same"
  logInfo m!"{first.name} and {second.name} state the same"
