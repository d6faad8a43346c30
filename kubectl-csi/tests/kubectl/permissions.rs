//! The chart's role grants exactly what the program reads.

use std::collections::BTreeSet;

use kubectl_csi::model::Kind;

const ROLE: &str = include_str!("../../../charts/csi-sidecars/templates/why.yaml");

/// Groups and resources of the role's rules, one line each.
fn rules() -> BTreeSet<(String, String)> {
    let mut rules = BTreeSet::new();
    let mut group = String::new();
    for line in ROLE.lines() {
        let quoted = |line: &str| {
            line.split('"')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if line.contains("- apiGroups:") {
            group = quoted(line).concat();
        } else if line.contains("resources:") {
            rules.extend(
                quoted(line)
                    .into_iter()
                    .map(|resource| (group.clone(), resource)),
            );
        } else if line.contains("verbs:") {
            assert_eq!(quoted(line), ["get", "list"], "it only reads");
        }
    }
    rules
}

#[test]
fn w_67_the_role_of_the_chart_is_what_is_looked_at() {
    // A right to get a Secret is a right to read it: users who want that answer bind that right
    // themselves.
    let apart = [Kind::Secret, Kind::ConfigMap];
    let asked = Kind::all().filter(|kind| !apart.contains(kind));
    let asked: BTreeSet<_> = asked
        .map(|kind| (kind.group().to_owned(), kind.plural().to_owned()))
        .collect();
    assert_eq!(rules(), asked);
    assert!(!ROLE.contains("Binding"), "nobody is bound to it");
}
