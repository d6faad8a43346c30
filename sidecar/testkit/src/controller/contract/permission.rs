//! Missing permissions are logged once, in the form that goes into a manifest.

use super::super::{Program, Stage, settle};
use crate::api::access::Allow;

/// Generates the tests of permissions.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_of_permissions {
    ($program:path) => {
        #[tokio::test]
        async fn a_permission_that_is_missing_is_named_once_as_it_goes_into_a_manifest() {
            $crate::controller::contract::permission::missing(&$program).await;
        }
    };
}

/// The program's rules without these verbs of a resource, separated by commas.
pub(super) fn without(program: &'static Program, withheld: (&str, &str, &str)) -> Vec<Allow> {
    let kept = |group: &str, resource: &str, verb: &str| {
        (group, resource) != (withheld.0, withheld.1)
            || !withheld.2.split(',').any(|one| one == verb)
    };
    let rules = program.permissions.iter().map(|(group, resource, verbs)| {
        let verbs = verbs.split(',').filter(|verb| kept(group, resource, verb));
        Allow::new(group, resource, &verbs.collect::<Vec<_>>().join(","))
    });
    rules.collect()
}

/// One verb is missing, and granted later.
pub async fn missing(program: &'static Program) {
    let stage = Stage::prepared(program, 1).await;
    let (group, resource, verb) = program.withheld;
    let rules = without(program, program.withheld);
    assert_ne!(rules, without(program, ("", "", "")), "it is withheld");
    stage.api.allow_only(rules);
    let mut running = stage.start(&["--retry-interval-start=1s"]);
    let rule = format!(
        r#"{{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}} in a ClusterRole"#
    );
    running.logs(&rule).await;
    running.logs(program.ready).await;
    stage.ask(0);
    settle().await;
    settle().await;
    assert!(running.is_running(), "{}", running.log());
    assert!(!stage.is_done(0));
    let log = running.log();
    let complaints = log.lines().filter(|line| line.contains("a permission"));
    assert_eq!(complaints.count(), 1, "{log}");
    let optional = "optional rules are for those who ask";
    assert!(!log.contains("an optional permission"), "{optional}: {log}");
    stage.api.allow_only(without(program, ("", "", "")));
    stage.until_done(0).await;
}
