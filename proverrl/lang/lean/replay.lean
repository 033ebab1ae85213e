/-
Sends the declarations of one compiled module through the kernel, into the environment of the
module's imports. Nothing of the module is run: its data is read, and it is never imported.

  lean --run replay.lean NONCE MODULE.olean

Every line that counts begins with NONCE, a word that the module's author cannot know. "started"
comes before the module is read; then a line for each axiom and each theorem that the module
declares; last "replayed", or "refused" with the kernel's words. Whatever else happens, such as
imports that are not found, ends the program with an error and without either word.
-/
import Lean.CoreM
import Lean.Replay

open Lean

abbrev NewConstants := Std.HashMap Name ConstantInfo

/-- The function has had three homes: `Kernel.Environment` from 4.35 on, before that `Environment`,
over the kernel's environment in some releases and over the elaborator's in the others. -/
def check (imported : Environment) (new : NewConstants) : IO Unit := by
  first
  | exact discard (Kernel.Environment.replay new imported.toKernelEnv)
  | exact discard (Environment.replay new imported)
  | exact discard (Environment.replay new imported.toKernelEnv)

def say (nonce words : String) : IO Unit :=
  IO.println (nonce ++ " " ++ words)

def list (nonce : String) : List ConstantInfo → IO Unit
  | [] => pure ()
  | constant :: others => do
    match constant with
    | .axiomInfo _ => say nonce ("axiom " ++ constant.name.toString)
    | .thmInfo _ => say nonce ("theorem " ++ constant.name.toString)
    | _ => pure ()
    list nonce others

def collect : List ConstantInfo → NewConstants → NewConstants
  | [], found => found
  | constant :: others, found => collect others (found.insert constant.name constant)

def main (arguments : List String) : IO Unit := do
  match arguments with
  | [nonce, path] =>
    say nonce "started"
    let (data, _) ← readModuleData ⟨path⟩
    let imported ← importModules data.imports {}
    let constants := data.constants.toList
    list nonce constants
    try
      check imported (collect constants {})
      say nonce "replayed"
    catch error => say nonce ("refused " ++ toString error)
  | _ => IO.println "usage: lean --run replay.lean NONCE MODULE.olean"
