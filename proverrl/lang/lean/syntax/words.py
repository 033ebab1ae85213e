"""The words, options and characters that the audit of Lean text knows.

Flows in: nothing. Flows out: tables, and the judgement of one word.
Not handled here: where a word stands (``audit``). The commands are those of Lean 4.15 to 4.35,
Mathlib, Batteries and Aesop. A keyword of ``keywords`` that no list allows is refused. A word that
is in no table is an identifier, or a keyword that only Lean knows.
"""

from __future__ import annotations

import re
from collections.abc import Set

from proverrl.lang.lean.syntax.keywords import LEAN_KEYWORDS, OTHER_KEYWORDS, PROOF_KEYWORDS
from proverrl.lang.lean.syntax.tokens import split_name
from proverrl.lang.records import Category

DECLARING = frozenset("theorem lemma def abbrev structure inductive".split())
"""Declarations that a prelude may make."""

# What starts a command or belongs to one. The first group changes what other text means, assumes
# something or runs code; the second only has no place in a proof.
CHEATING_COMMANDS = frozenset(
    """axiom opaque instance class deriving attribute export local scoped unsafe partial
    notation notation3 infix infixl infixr prefix postfix unif_hint binder_predicate
    macro macro_rules syntax elab elab_rules declare_syntax_cat
    simproc dsimproc simproc_decl dsimproc_decl builtin_simproc builtin_dsimproc cbv_simproc
    initialize builtin_initialize run_cmd run_elab run_meta run_tac by_elab
    include_str include_bytes register_option register_builtin_option register_simp_attr
    register_label_attr register_parser_alias register_hint
    declare_config_elab declare_command_config_elab declare_simp_like_tactic declare_aesop_rule_sets
    add_aesop_rules erase_aesop_rules add_decl_doc tactic_extension grind_pattern
    set_premise_selector set_library_suggestions irreducible_def init_quot
    variable? unlock_limits unset_option sudo norm_cast_add_elim grind_propagator
    builtin_grind_propagator register_linter_set reset_grind_attrs insert_to_additive_translation
    to_additive_name_hint to_dual_name_hint to_dual_insert_cast
    compile_inductive compile_def with_weak_namespace end_local_scope seal unseal
    suppress_compilation unsuppress_compilation gen_injective_theorems
    extend_docs recommended_spelling register_error_explanation register_tactic_tag
    initialize_simps_projections simps_projections run_parser_attribute_hooks
    deprecated_syntax init_grind_norm gen_injective_theorems% set_config def_eval_config_item
    builtin_env_linter declare! ensure_eval_expr_instance ensure_eval_term_instance
    ensure_eval_term_expr_instances dbg_trace dbg_sleep dbg_stack_trace""".split()
)
OTHER_COMMANDS = frozenset(
    """theorem lemma def abbrev example structure inductive coinductive mutual
    namespace section end universe variable include omit import
    private protected public noncomputable nonrec meta alias proof_wanted
    assert_not_exists assert_not_imported library_note docs_to_verso deprecated_module
    recall recall? test_extern""".split()
)
COMMANDS = CHEATING_COMMANDS | OTHER_COMMANDS
KEYWORDS = LEAN_KEYWORDS | OTHER_KEYWORDS | COMMANDS
"""Every word that some Lean is known to read as a keyword."""

FILE_WORDS = frozenset(
    """theorem lemma def abbrev example structure inductive coinductive mutual instance class
    deriving attribute export local scoped notation infix infixl infixr prefix postfix
    namespace section end universe variable include omit private protected public noncomputable
    nonrec alias""".split()
)
"""Words of commands that a bare file may hold: there is no statement that they could bend."""

HOLES = frozenset("sorry admit stop".split())
_LEFTOVERS = frozenset(
    "apply? exact? rw? rw?? apply?? exact?! have? observe? show? library_search suggest? try? "
    "plausible slim_check polyrith".split()
)
_NATIVE_TACTICS = frozenset("native_decide bv_decide bv_decide? bv_check native".split())
_NATIVE_NAMES = frozenset(
    "ofReduceBool ofReduceNat reduceBool reduceNat trustCompiler nativeEqTrue "
    "implemented_by extern csimp".split()
)
_ASSUMING_NAMES = frozenset("sorryAx lcProof lcUnreachable lcAny lcErased unsafeCast".split())
_META_NAMES = frozenset(
    """Elab Meta MetaM TacticM TermElabM CommandElabM CoreM MacroM BaseIO EIO
    addDecl addDeclCore addDeclWithoutChecking addAndCompile modifyEnv setEnv
    evalExpr evalTerm evalConst evalConstCheck evalDecl evalTactic elabTerm elabCommand
    unsafeIO unsafeBaseIO unsafeEIO ptrAddrUnsafe dbgTrace dbgTraceVal dbgSleep
    dbgStackTrace dbgTraceIfShared skipKernelTC IO timeit allocprof preprocessors""".split()
)
_META_ROOTS = frozenset(
    "Lean Elab Meta System Lake Qq Plausible SlimCheck ProofWidgets ImportGraph".split()
)
_THEORIES = frozenset(
    {("Lean", "Grind"), ("Lean", "Omega"), ("Lean", "Order"), ("System", "Platform")}
)
"""Namespaces of Lean's own that hold lemmas and no programs."""
# These give an IO action without naming its type.
_PRINTERS = frozenset("println! eprintln! print! eprint!".split())
_RESOURCES = frozenset({"sleep", "heartbeats_sleep"})
# Terms that log a message, wait for a task or, as idbg, open a port of the network under a server.
_RUNNING_TERMS = frozenset(
    "idbg by? exact?% show_term_elab logNamedError logNamedErrorAt logNamedWarning "
    "logNamedWarningAt throwNamedError throwNamedErrorAt let_mvar% elabToSyntax% "
    "wait_for_sync wait_for_test_task".split()
)


def judge_word(text: str, known: Set[str] = frozenset()) -> tuple[Category, str, str] | None:
    """Category, rule and reason why a word is refused in a proof; None when it is not.

    ``known`` are words of the problem's own text: there, ``stop`` is the name of something.
    """
    if text in COMMANDS:
        category: Category = "cheat" if text in CHEATING_COMMANDS else "syntax"
        return category, "commands", f"{text!r} belongs to a command, not to a proof"
    if text == "sorry" or (text in HOLES and text not in known):
        return "hole", "holes", f"{text!r} leaves the goal open"
    parts = split_name(text)
    if _ASSUMING_NAMES.intersection(parts):
        return "cheat", "names", f"{text!r} proves anything"
    if _NATIVE_NAMES.intersection(parts) or (text in _NATIVE_TACTICS and text not in known):
        return "cheat", "native", f"{text!r} trusts the compiler instead of the kernel"
    if text in known:
        return None
    if text in _LEFTOVERS:
        return "cheat", "leftovers", f"{text!r} may leave the goal open without an error"
    if text in _RESOURCES:
        return "syntax", "resources", f"{text!r} only takes time"
    is_meta_root = bool(parts) and parts[0] in _META_ROOTS and tuple(parts[:2]) not in _THEORIES
    if _META_NAMES.intersection(parts) or is_meta_root or text in _PRINTERS:
        return "cheat", "meta", f"{text!r} reaches into Lean itself"
    if text in KEYWORDS and text not in PROOF_KEYWORDS:
        message = f"{text!r} is a keyword that is not on the list for proofs"
        return "cheat" if text in _RUNNING_TERMS else "syntax", "keywords", message
    return None


KERNEL_NAMES = frozenset(
    f"Nat.{name}"
    for name in "add sub mul div mod gcd beq ble land lor xor shiftLeft shiftRight pow log2".split()
)
"""Functions that Lean's kernel evaluates with code of its own, found by their names."""

MAX_HEARTBEATS = 1_000_000
"""Of ``set_option maxHeartbeats N in``, in Lean's own unit; 0 would take the limit away."""

BOUNDED_OPTIONS = {
    "maxHeartbeats": MAX_HEARTBEATS,
    "synthInstance.maxHeartbeats": MAX_HEARTBEATS,
    "maxRecDepth": 100_000,
    "synthInstance.maxSize": 10_000,
    "maxSynthPendingDepth": 10,
    "exponentiation.threshold": 10_000,
}
"""The most that options may be set to that let Lean try harder."""
_HARMLESS_OPTION = re.compile(
    r"(?:pp|linter)(?:\.\w+)+|diagnostics|tactic\.hygienic|push_cast\.trace"
)
_CHEATING_OPTION = re.compile(
    r"debug\.|warn\.|warningAsError|compiler\.|interpreter\.|bootstrap\.|autoImplicit"
    r"|relaxedAutoImplicit|Elab\.|internal\.|experimental\.|profiler|quotPrecheck|hygiene|doc\."
    r"|linter\.all_?$|allowUnsafe|smartUnfolding"
)
_FILE_OPTIONS = frozenset({"autoImplicit", "relaxedAutoImplicit"})


def judge_option(name: str, value: str, *, in_file: bool) -> tuple[Category, str] | None:
    """Category and reason why an option may not be set; None when it may."""
    limit = BOUNDED_OPTIONS.get(name)
    if limit is not None:
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 12 else -1
        if 0 < number <= limit or (in_file and number == 0):
            return None
        return "syntax", f"{name} must be from 1 to {limit}"
    if _HARMLESS_OPTION.fullmatch(name) or (in_file and name in _FILE_OPTIONS):
        return None
    if _CHEATING_OPTION.match(name):
        return "cheat", f"the option {name} changes what is checked or told"
    return "syntax", f"the option {name} is not on the list of options that may be set"


FILE_ATTRIBUTES = frozenset(
    """simp ext reducible inline irreducible norm_cast push_cast aesop gcongr instance refl symm
    trans elab_as_elim to_additive simps local scoped norm_num positivity fun_prop continuity
    measurability specialize always_inline congr deprecated inherit_doc mono class""".split()
)
"""Attributes that a bare file may give."""


def _make_class(text: str) -> str:
    """A regular expression's character class of hexadecimal code points and ranges."""
    pieces = (piece.partition("-") for piece in text.split())
    return "".join(
        rf"\U{int(first, 16):08x}-\U{int(last or first, 16):08x}" for first, _, last in pieces
    )


# Outside comments: ASCII; Latin letters with marks, signs and small numbers; Greek without the
# letters that look like Latin ones; super- and subscripts; quotes, primes and bullets of Mathlib;
# letterlike signs, arrows, operators, brackets, shapes; script and double-struck letters; a few
# further signs of Mathlib's notation (ᗮ, ᘁ, ♯, ⬝, 𝟙).
NOT_IN_CODE = re.compile(
    f"""[^{
        _make_class(
            "20-7E A AB BB AC B0-B3 B7 B9 C0-17F "
            "393 394 398 39B 39E 3A0 3A3 3A6 3A8 3A9 3B1-3BE 3C0-3C9 3D1 3D5 3D6 3F1 3F5 "
            "2B0-2B8 2E0-2E4 1D2C-1D6A 1D78 1D9B-1DBF 2070-209C 2C7C "
            "2016 2020-2022 2026 2032-2034 2039 203A 203C 2045 2046 2100-214F 2190-23FF "
            "25A0-25FF 266D-266F 27C0-27FF 2900-2AFF 2B1C 2B1D 15EE 1601 "
            "1D49C-1D59F 1D7D8 1D7D9 1D7EC-1D7EF"
        )
    }]"""
)
"""A character that may not stand outside comments and strings."""

NOT_IN_TEXT = re.compile(
    f"""[{
        _make_class(
            "0-8 B-1F 7F-9F AD 61C 180E 200B-200F 2028-202E 2060-206F D800-F8FF FEFF FFF0-FFFB "
            "FFFE FFFF E0000-10FFFF"
        )
    }]"""
)
"""A character that may stand nowhere: controls, marks of zero width or of direction, surrogates,
private use."""

TACTICS = frozenset(
    """ac_rfl all_goals any_goals apply apply_assumption assumption by_cases case cases change clear
    congr constructor contradiction conv decide dsimp eq_refl erw exact exfalso ext first fin_cases
    focus funext generalize grind induction infer_instance injection injections intro intros iterate
    left linarith nlinarith norm_num nomatch obtain omega only push_cast rcases refine
    rename_i revert rfl right ring rintro rotate_left rw rwa simp simp_all simpa skip solve
    specialize split subst subst_vars symm trans trivial unfold""".split()
)
"""Common tactics, which Lean reads as names wherever no tactic can stand."""

CORE_NAMES = frozenset(
    """_ And Array Bool Char Decidable Empty Eq Exists False Fin Function HEq Iff Inhabited
    Int List Nat Ne Not Option Or PUnit Prod Sigma String Subtype Sum True Type Unit absurd
    and_assoc and_comm and_false and_imp and_self and_true congr congrArg congrFun cons
    decide_eq_true dif_neg dif_pos dite eq_comm exists_prop false false_and false_or forall_const
    fst funext id if_neg if_pos iff_self imp_self inl inr intro ite mk mp mpr ne_eq neg nil none
    not_and not_exists not_forall not_le not_lt not_not not_or of_decide_eq_true or_assoc or_comm
    or_false or_self or_true pos propext rfl snd some state succ tactic true true_and true_or
    zero""".split()
)
"""Names of core Lean that proofs use without a dot before them, constructors among them; and the
words of the comment that shows a state."""
