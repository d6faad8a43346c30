//! `--feature-gates`: each gate goes to the programs that know it.

use super::Program;

pub(super) const FLAG: &str = "feature-gates";

/// Groups by stage, which every program with gates knows.
const GROUPS: [&str; 2] = ["AllAlpha", "AllBeta"];

/// The gates of `list` for `program`; `None` if there are none. A program with its own prefixed list
/// ignores the known gates of the common list.
///
/// A gate that no program knows goes to the first one with gates, even if that has its own list, because
/// its error message names the problem.
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
        // One warning about a retired gate is enough.
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
