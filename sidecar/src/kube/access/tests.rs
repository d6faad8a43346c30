use sidecar_testkit::api::access::Allow;
use sidecar_testkit::{FakeApi, Fault};
use tokio::time::Instant;

use super::*;

/// The rules of an attacher (`attacher.md` section 10).
fn rules() -> Vec<Rule> {
    vec![
        Rule::required("", "persistentvolumes", &["get", "list", "watch", "patch"]),
        Rule::required("storage.k8s.io", "csinodes", &["get", "list", "watch"]),
        Rule::required(
            "storage.k8s.io",
            "volumeattachments",
            &["get", "list", "watch", "patch"],
        ),
        Rule::required("storage.k8s.io", "volumeattachments/status", &["patch"]),
        Rule::required(
            "coordination.k8s.io",
            "leases",
            &["get", "create", "update"],
        )
        .within("kube-system"),
        Rule::required("", "events", &["create", "patch"]).optional("events are not written"),
    ]
}

fn granted() -> Vec<Allow> {
    vec![
        Allow::new("", "persistentvolumes", "get, list, watch, patch"),
        Allow::new("storage.k8s.io", "csinodes", "get, list, watch"),
        Allow::new(
            "storage.k8s.io",
            "volumeattachments",
            "get, list, watch, patch",
        ),
        Allow::new("storage.k8s.io", "volumeattachments/status", "patch"),
        Allow::new("coordination.k8s.io", "leases", "*").within("kube-system"),
        Allow::new("", "events", "*"),
    ]
}

async fn check_with(allowed: Vec<Allow>) -> Report {
    let api = FakeApi::new();
    api.allow_only(allowed);
    check(&api.client(), &rules()).await
}

#[tokio::test]
async fn full_permissions_leave_nothing_to_report() {
    let report = check_with(granted()).await;
    assert_eq!(report, Report::default());
    assert!(report.is_complete());
}

#[tokio::test]
async fn each_missing_rule_is_named_as_it_goes_into_a_role() {
    let mut allowed = granted();
    allowed[2] = Allow::new("storage.k8s.io", "volumeattachments", "get");
    allowed.remove(3);
    allowed[3] = Allow::new("coordination.k8s.io", "leases", "*").within("default");
    allowed.remove(4);
    let report = check_with(allowed).await;
    let lines: Vec<String> = report.missing.iter().map(ToString::to_string).collect();
    assert_eq!(
        lines,
        [
            r#"- {apiGroups: ["storage.k8s.io"], resources: ["volumeattachments"], verbs: ["list", "watch", "patch"]} in a ClusterRole"#,
            r#"- {apiGroups: ["storage.k8s.io"], resources: ["volumeattachments/status"], verbs: ["patch"]} in a ClusterRole"#,
            r#"- {apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get", "create", "update"]} in a Role in namespace kube-system"#,
            r#"- {apiGroups: [""], resources: ["events"], verbs: ["create", "patch"]} in a ClusterRole"#,
        ]
    );
    assert!(!report.is_complete());
    assert!(!report.grants("", "events") && report.grants("", "persistentvolumes"));
}

#[tokio::test]
async fn a_missing_optional_rule_does_not_make_it_incomplete() {
    let mut allowed = granted();
    allowed.pop();
    let report = check_with(allowed).await;
    assert_eq!(report.missing.len(), 1);
    assert!(report.is_complete());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_noted_and_does_not_hang() {
    let reviews = "*/selfsubjectaccessreviews";
    for (fault, want) in [
        (Fault::on("POST", reviews).answer(403), "injected fault"),
        (Fault::on("POST", reviews).answer(404), "injected fault"),
        (
            Fault::on("POST", reviews).answer_raw(200, "{nonsense"),
            "key must be a string",
        ),
        (
            Fault::on("POST", reviews).drop_connection(),
            "connection closed",
        ),
        (Fault::on("POST", reviews).hang(), "no answer within 10 s"),
    ] {
        let api = FakeApi::new();
        api.fault(fault);
        let start = Instant::now();
        let report = check(&api.client(), &rules()).await;
        let unknown = report.unknown.clone().unwrap();
        assert!(unknown.contains(want), "{unknown}");
        assert!(!report.is_complete() && report.missing.is_empty());
        assert!(start.elapsed() <= REVIEWS_TIMEOUT);
        assert!(
            api.requests().len() <= AT_ONCE + 1,
            "{}",
            api.requests().len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn few_questions_are_asked_at_once() {
    let api = FakeApi::new();
    let gate = sidecar_testkit::Gate::new();
    api.fault(Fault::on("POST", "*").hold(&gate));
    let client = api.client();
    let asking = tokio::spawn(async move { check(&client, &rules()).await });
    api.until(|_| gate.waiting() == AT_ONCE).await;
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gate.waiting(), AT_ONCE);
    gate.open();
    assert!(asking.await.unwrap().is_complete());
    assert_eq!(api.requests().len(), 17);
}
