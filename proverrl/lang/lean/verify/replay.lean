/-
Sends the declarations of one compiled module through the kernel, into the environment of the
module's imports. Nothing of the module is run: its data is read, and it is never imported.

  lean --run replay.lean NONCE MODULE.olean [CHALLENGE.olean THEOREM]

Every line that counts begins with NONCE, a word that the module's author cannot know. "started"
comes before the module is read; then a line for each axiom and each theorem that the module
declares; with a challenge, which is our own statement compiled with `sorry`, "same", or "differs"
with the constant that is not ours; last "replayed", or "refused" with the kernel's words. Whatever
else happens, such as imports that are not found, ends the program with an error and without
either word.
-/
import Lean.CoreM
import Lean.Replay
import Lean.Util.FoldConsts

open Lean

abbrev NewConstants := Std.HashMap Name ConstantInfo

/-- The function has had three homes: `Kernel.Environment` from 4.35 on, before that `Environment`,
over the kernel's environment in some releases and over the elaborator's in the others. -/
def check (imported : Environment) (new : NewConstants) : IO Unit := by
  first
  | exact discard (Kernel.Environment.replay new imported.toKernelEnv)
  | exact discard (Environment.replay new imported)
  | exact discard (Environment.replay new imported.toKernelEnv)

/-- A name without the signs that quote parts of it. -/
def plain (name : Name) : String :=
  name.toString (escape := false)

def say (nonce words : String) : IO Unit :=
  IO.println (nonce ++ " " ++ words)

def list (nonce : String) : List ConstantInfo → IO Unit
  | [] => pure ()
  | constant :: others => do
    match constant with
    | .axiomInfo _ => say nonce ("axiom " ++ plain constant.name)
    | .thmInfo _ => say nonce ("theorem " ++ plain constant.name)
    | .defnInfo _ | .opaqueInfo _ => say nonce ("definition " ++ plain constant.name)
    | _ => pure ()
    list nonce others

def collect : List ConstantInfo → NewConstants → NewConstants
  | [], found => found
  | constant :: others, found => collect others (found.insert constant.name constant)

/-- Whether two constants are of one kind and mean the same, if their types are equal. Theorems and
`opaque` are never unfolded, and the kernel makes recursors out of the inductive types. -/
def agree : ConstantInfo → ConstantInfo → Bool
  | .defnInfo a, .defnInfo b => a.value == b.value
  | .inductInfo a, .inductInfo b => a.numParams == b.numParams && a.ctors == b.ctors
  | .axiomInfo _, .axiomInfo _ | .thmInfo _, .thmInfo _ | .opaqueInfo _, .opaqueInfo _
  | .quotInfo _, .quotInfo _ | .ctorInfo _, .ctorInfo _ | .recInfo _, .recInfo _ => true
  | _, _ => false

/-- The constants on which the meaning of one rests. -/
def parts (constant : ConstantInfo) : List Name :=
  let others := match constant with
    | .defnInfo definition => definition.value.getUsedConstants.toList
    | .inductInfo type => type.ctors
    | _ => []
  constant.type.getUsedConstants.toList ++ others

/-- How a constant of one name is stated in another way. Equality of expressions is up to the names of
bound variables. -/
def differInType (our their : ConstantInfo) : Option String :=
  if our.levelParams != their.levelParams then some (plain our.name ++ " has other universes")
  else if our.type != their.type then some (plain our.name ++ " has another type")
  else none

/-- The first difference in what is reached from these names. What a module imports is not among its
constants, and what was compared is taken out. -/
partial def differ : List Name → NewConstants → NewConstants → Option String
  | [], _, _ => none
  | name :: names, ours, theirs =>
    match ours.get? name, theirs.get? name with
    | none, none => differ names ours theirs
    | none, some _ => some (plain name ++ " is not ours")
    | some _, none => some (plain name ++ " is missing")
    | some our, some their =>
      match differInType our their with
      | some why => some why
      | none =>
        if !agree our their then some (plain name ++ " is defined in another way")
        else differ (parts our ++ names) (ours.erase name) (theirs.erase name)

def sameKind : ConstantInfo → ConstantInfo → Bool
  | .thmInfo _, .thmInfo _ | .defnInfo _, .defnInfo _ | .opaqueInfo _, .opaqueInfo _ => true
  | _, _ => false

/-- How the constants of the target's name differ, of which there should be one on each side. -/
def differInTargets (target : String) : List ConstantInfo → List ConstantInfo → Option String
  | [], [] => none
  | our :: ours, their :: theirs =>
    match differInType our their with
    | some why => some why
    | none =>
      if our.name == their.name && sameKind our their then differInTargets target ours theirs
      else some (target ++ " is declared in another way")
  | _, _ => some (target ++ " is declared in another way")

def reached : List ConstantInfo → List Name
  | [] => []
  | constant :: others => constant.type.getUsedConstants.toList ++ reached others

/-- What in a module is not as our challenge has it, in its axioms and in all that the type of the
target reaches. -/
def compareModules (challenge theirs : ModuleData) (target : String) : Option String :=
  let imports (data : ModuleData) := data.imports.toList.map (·.module)
  let isTarget (constant : ConstantInfo) : Bool := plain constant.name == target
  let isAxiom : ConstantInfo → Bool
    | .axiomInfo _ => true
    | _ => false
  let targets := challenge.constants.toList.filter isTarget
  let theirTargets := theirs.constants.toList.filter isTarget
  let axioms := theirs.constants.toList.filter isAxiom
  if targets.isEmpty then some (target ++ " is not in our own statement")
  else if imports challenge != imports theirs then some "it has other imports"
  else match differInTargets target targets theirTargets with
    | some why => some why
    -- What a definition of the target's name is, was for the candidate to say.
    | none => differ (axioms.map (·.name) ++ reached targets)
      (collect challenge.constants.toList {}) (collect theirs.constants.toList {})

def main (arguments : List String) : IO Unit := do
  match arguments with
  | nonce :: path :: challenge =>
    say nonce "started"
    let (data, _) ← readModuleData ⟨path⟩
    let imported ← importModules data.imports {}
    let constants := data.constants.toList
    list nonce constants
    match challenge with
    | [ours, target] =>
      let (challenge, _) ← readModuleData ⟨ours⟩
      match compareModules challenge data target with
      | none => say nonce "same"
      | some why => say nonce ("differs " ++ why)
    | _ => pure ()
    try
      check imported (collect constants {})
      say nonce "replayed"
    catch error => say nonce ("refused " ++ toString error)
  | _ => IO.println "usage: lean --run replay.lean NONCE MODULE.olean [CHALLENGE.olean THEOREM]"
