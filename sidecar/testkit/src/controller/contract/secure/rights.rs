//! Permissions for reviews, without which no client is admitted.

use super::super::super::{ELECTION, Program, Stage};
use super::super::permission::without;
use super::Secured;
use crate::api::access::Allow;

/// All rules that the program needs, without those for reviews.
fn all_but_reviews(program: &'static Program) -> impl Iterator<Item = Allow> {
    let leases = Allow::new(
        "coordination.k8s.io",
        "leases",
        "get,create,update,patch,list,watch",
    );
    without(program, ("", "", "")).into_iter().chain([leases])
}

fn rule(group: &str, resource: &str, quote: &str) -> String {
    format!(
        "{{apiGroups: [{quote}{group}{quote}], resources: [{quote}{resource}{quote}], verbs: [{quote}create{quote}]}}"
    )
}

/// A standby may not make reviews. Another host leads: a second process on this host would have the
/// leader's identity, and so its lease.
pub async fn not_permitted_on_a_standby(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    stage.foreign_lease(3600);
    stage.api.allow_only(all_but_reviews(program));
    let standby = Secured::start(&stage, &ELECTION).await;
    let words = rule("authentication.k8s.io", "tokenreviews", "\\\"");
    standby.running.logs(&words).await;
    let ready = standby.get("/readyz", None).await;
    assert!(
        ready
            .body
            .contains("--secure-http-endpoint: not allowed to"),
        "O-56: {}",
        ready.body
    );
    assert_eq!(stage.holder(), "another", "it stands by");
}

/// Reviews are forbidden, and granted later.
pub async fn not_permitted(program: &'static Program) {
    let stage = Stage::prepared(program, 0).await;
    let all = || all_but_reviews(program);
    stage.api.allow_only(all());
    let secured = Secured::start(&stage, &[]).await;
    for (group, resource) in [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ] {
        secured.running.logs(&rule(group, resource, "\\\"")).await;
    }
    let answer = secured.scrape().await;
    assert_eq!(answer.status, 503, "O-56");
    let words = rule("authentication.k8s.io", "tokenreviews", "\"");
    assert!(answer.body.contains(&words), "O-56: {}", answer.body);
    let granted = [
        Allow::new("authentication.k8s.io", "tokenreviews", "create"),
        Allow::new("authorization.k8s.io", "subjectaccessreviews", "create"),
    ];
    stage.api.allow_only(all().chain(granted));
    assert_eq!(secured.scrape().await.status, 200, "O-56");
}
