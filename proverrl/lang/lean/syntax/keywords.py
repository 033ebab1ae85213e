"""The keywords of Lean that are known, and those that a proof may use.

Flows in: nothing. Flows out: tables of words. A keyword is a word that Lean cannot read as a name.
The first table is what the toolchain itself answers (``scripts/lean_keywords.py``); the second
comes from the sources of Lean 4.9 to 4.33, Batteries, Aesop and Mathlib, and from the strings of
4.35. ``words`` has further commands. A keyword is refused unless a list allows it, so that one
which a new release brings waits for a judgement. The names of tactics are no keywords: Lean reads
``simp`` as a name wherever no tactic can stand.
"""

from __future__ import annotations

LEAN_RELEASE = "4.35.0"
"""The release whose keywords were read; a test compares the table with the Lean at hand."""

LEAN_KEYWORDS = frozenset(
    """Prop Sort StateRefT Type abbrev add_decl_doc assert! assert_not_exists assert_not_imported
    at attribute axiom bif binder_predicate binop% binop_lazy% binrel% binrel_no_prop% break
    builtin_initialize by by? by_elab calc catch class clear% coinductive coinductive_fixpoint
    continue dbg_trace debug_assert! decl_name% declare_syntax_cat decreasing_by def
    default_or_ofNonempty% deprecated_module deprecated_syntax deriving do docs_to_verso elab
    elabToSyntax% elab_rules else end ensure_expected_type% ensure_type_of% exact?% example
    exists export extends finally for for_in% forall from fun gen_injective_theorems%
    generalizing grind_pattern have haveI hiding idbg if import in include include_str inductive
    inductive_fixpoint inferInstanceAs infix infixl infixr init_grind_norm init_quot initialize
    instance leading_parser leftact% let letI let_delayed let_expr let_fun let_mvar% let_tmp
    let_λ local logNamedError logNamedErrorAt logNamedWarning logNamedWarningAt macro
    macro_rules match match_expr max_prec meta mod_cast monotonicity_by mut mutual namespace
    nat_lit no_error_if_unused% no_implicit_lambda% no_index nofun nomatch noncomputable nonrec
    norm_cast_add_elim notation omit opaque open panic! partial partial_fixpoint postfix prefix
    private private_decl% protected public recall recall? recommended_spelling
    register_error_explanation register_tactic_tag renaming repeat return rightact% run_cmd
    run_elab run_meta scoped seal section set_option show show_term show_term_elab sorry
    struct_inst_default% structure suffices syntax tactic_alt tactic_extension tactic_name
    tactic_tag termination_by termination_by? then theorem throwNamedError throwNamedErrorAt
    trailing_parser try type_of% universe unless unlock_limits unop% unreachable! unsafe unseal
    until using value_of% variable wait_for_expected_type% wait_if_contains_mvar%
    wait_if_type_contains_mvar% wait_if_type_mvar% where while with with_decl_name%
    with_weak_namespace without_expected_type""".split()
)
"""All keywords of that release without imports, those of commands too."""

OTHER_KEYWORDS = frozenset(
    """builtin_cbv_simproc builtin_cbv_simproc_decl builtin_cbv_simproc_pattern%
    builtin_dsimproc_decl builtin_env_linter builtin_simproc_decl builtin_simproc_pattern%
    cbv_eval cbv_simproc_decl cbv_simproc_pattern% compile_time_search_path% declare!
    declare_bitwise_int_theorems declare_bitwise_uint_theorems declare_int_theorems
    declare_sint_simprocs declare_uint_simprocs declare_uint_theorems declName%
    def_eval_config_item derive_fintype% elementwise_of% ensure_eval_expr_instance
    ensure_eval_term_expr_instances ensure_eval_term_instance eval_prec eval_prio fast_instance%
    for_in'% grind_annotated json% matches println! proxy_equiv% reassoc_of% reset_grind_attrs%
    satisfies_binder_pred% set_config simproc_pattern% test_extern using! wait_for_sync
    wait_for_test_task with_annotate_term""".split()
)
"""Keywords that need an import or the syntax of the whole core library, or that only other releases
or Mathlib have."""

PROOF_KEYWORDS = frozenset(
    """assert! at bif break by calc catch clear% continue decreasing_by do else
    ensure_expected_type% exists extends finally for forall from fun generalizing have haveI
    hiding if in inferInstanceAs let let_delayed let_fun let_tmp letI match matches mod_cast mut
    nat_lit no_index nofun nomatch open panic! Prop renaming repeat return set_option show
    show_term Sort suffices termination_by then try Type type_of% unless unreachable! until using
    using! where while with without_expected_type""".split()
)
"""Those that any text of a policy may use. The rest belong to commands, open a goal, print, or are
pieces of programs."""
