//! The specification's rows, as manifests.
//!
//! | file | rows |
//! |---|---|
//! | `commands` | P-1 to P-9: images and command lines |
//! | `pods` | P-10 to P-27: everything around command lines |

mod commands;
mod pods;

use super::verdict::Verdict;
use super::*;

/// Lets the account do everything.
const ADMIN: &str = "
---
kind: ClusterRoleBinding
metadata: {name: admin}
subjects: [{kind: ServiceAccount, name: default, namespace: csi}]
roleRef: {kind: ClusterRole, name: cluster-admin}
";

/// A Deployment with one container, whose fields are `container`; `spec` adds fields of the pod.
fn deployment(container: &str, spec: &str) -> String {
    format!(
        "kind: Deployment\nmetadata: {{name: controller, namespace: csi}}\nspec: {{template: {{spec: {{{spec} containers: [{{name: c, {container}}}]}}}}}}\n{ADMIN}"
    )
}

fn examined(text: &str, plan: &Plan) -> Report {
    let input = Input::parse("in.yaml", text.to_owned(), "csi");
    assert_eq!(input.unreadable, [""; 0], "{text}");
    examine(&input, &Reviews::new(), plan, None)
}

fn report(text: &str) -> Report {
    examined(text, &Plan::default())
}

/// Verdict and remarks of the only container.
fn said(report: &Report) -> (Verdict, Vec<(&'static str, String)>) {
    let [answer] = &*report.answers else {
        panic!("{report:?}");
    };
    let remarks = answer.remarks.iter();
    let words = |one: &Remark| {
        format!(
            "{} {} {}",
            one.text,
            one.way,
            one.place.clone().unwrap_or_default()
        )
    };
    (
        answer.verdict(),
        remarks.map(|one| (one.row, words(one))).collect(),
    )
}

/// Asserts that a row is reported in these words, and with this verdict.
fn tells(text: &str, row: &str, verdict: Verdict, words: &[&str]) {
    let report = report(text);
    let (whole, remarks) = said(&report);
    let own: Vec<_> = remarks.iter().filter(|(one, _)| *one == row).collect();
    let fits = |(_, says): &&&(&str, String)| words.iter().all(|word| says.contains(word));
    assert!(
        own.iter().any(|one| fits(&one)),
        "{row} {words:?}: {remarks:?}\n{text}"
    );
    assert_eq!(whole, verdict, "{row}: {remarks:?}\n{text}");
}
