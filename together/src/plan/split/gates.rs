//! `--feature-gates`, where each gate is for those that know it.

use super::Program;

pub(super) const FLAG: &str = "feature-gates";

/// Gates of all programs that have gates: groups of stages.
const GROUPS: [&str; 2] = ["AllAlpha", "AllBeta"];

/// What of `list` is for `program`; `None` if nothing is. One with a list of its own takes no gates from
/// that of all.
///
/// A gate that nobody knows goes to the first who has gates, with a list of its own or without: it says
/// what is wrong in its own words.
pub(super) fn of(
    program: &Program,
    list: &str,
    chosen: &[&Program],
    has_own: bool,
) -> Option<String> {
    let has_gates = |program: &&&Program| program.spec.find(FLAG).is_some();
    let first = chosen.iter().find(has_gates);
    let is_first = first.is_some_and(|first| first.name == program.name);
    let is_for = |gate: &&str| {
        let name = gate.split('=').next().unwrap_or_default().trim();
        let is_known = chosen.iter().any(|program| knows(program, name));
        // One warning about a gate of the past is enough.
        let knew = |program: &&&Program| program.retired_gates.release(name).is_some();
        if !is_known && let Some(first) = chosen.iter().find(knew) {
            return first.name == program.name;
        }
        knows(program, name) && !has_own || !is_known && is_first
    };
    let gates: Vec<_> = list.split(',').filter(is_for).collect();
    (!gates.is_empty()).then(|| gates.join(","))
}

fn knows(program: &Program, name: &str) -> bool {
    let has_gates = program.spec.find(FLAG).is_some();
    let ignored = program.ignored_gates.iter().copied().flatten();
    let mut known = program.gates.iter().chain(ignored);
    has_gates && (known.any(|gate| gate.name == name) || GROUPS.contains(&name))
}
