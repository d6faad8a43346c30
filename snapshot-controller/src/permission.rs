//! The RBAC rules that the controller needs: those of the manifest it replaces.
//!
//! It writes claims with `update`, since the role grants no more, and never reads Secrets.

use sidecar::kube::access::Rule;
use sidecar::snapshot::{GROUP, GROUP_SNAPSHOT_GROUP};

use crate::plan::Settings;

const READ: &[&str] = &["get", "list", "watch"];
const LIST: &[&str] = &["list", "watch"];

/// The rules to check; `groups`: group snapshots are served.
#[must_use]
pub fn rules(settings: Settings, groups: bool) -> Vec<Rule> {
    let snapshots = &["get", "list", "watch", "patch"];
    let contents = &["create", "get", "list", "watch", "patch", "delete"];
    let mut rules = vec![
        Rule::required(GROUP, "volumesnapshots", snapshots),
        Rule::required(GROUP, "volumesnapshots/status", &["patch"]),
        Rule::required(GROUP, "volumesnapshotcontents", contents),
        Rule::required(GROUP, "volumesnapshotclasses", LIST),
        Rule::required(
            "",
            "persistentvolumeclaims",
            &["get", "list", "watch", "update"],
        ),
        Rule::required("", "persistentvolumes", READ),
        Rule::required("", "events", &["create", "patch"]).optional("no events on VolumeSnapshots"),
    ];
    if settings.distributed {
        rules.push(Rule::required("", "nodes", LIST));
    }
    if groups {
        rules.extend(of_groups());
    } else {
        let gone = Rule::required(GROUP_SNAPSHOT_GROUP, "volumegroupsnapshots", &["get"]);
        rules.push(gone.optional(
            "what was in a group snapshot stays when it is deleted, even if the group is gone",
        ));
    }
    rules
}

/// The additional rules for group snapshots: the controller creates and deletes their members.
fn of_groups() -> [Rule; 6] {
    let groups = &["get", "list", "watch", "patch"];
    let contents = &["create", "get", "list", "watch", "patch", "delete"];
    [
        Rule::required(GROUP_SNAPSHOT_GROUP, "volumegroupsnapshots", groups),
        Rule::required(
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshots/status",
            &["patch"],
        ),
        Rule::required(
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshotcontents",
            contents,
        ),
        Rule::required(GROUP_SNAPSHOT_GROUP, "volumegroupsnapshotclasses", LIST),
        Rule::required(GROUP, "volumesnapshots", &["create", "delete"]),
        Rule::required(GROUP, "volumesnapshotcontents/status", &["patch"]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of upstream's manifest, deploy/kubernetes/snapshot-controller at v8.7.0, with the
    /// rule for nodes that is commented out there.
    const GRANTED: &[(&str, &str, &[&str])] = &[
        ("", "persistentvolumes", &["get", "list", "watch"]),
        (
            "",
            "persistentvolumeclaims",
            &["get", "list", "watch", "update"],
        ),
        (
            "",
            "events",
            &["list", "watch", "create", "update", "patch"],
        ),
        ("", "nodes", &["get", "list", "watch"]),
        (GROUP, "volumesnapshotclasses", &["get", "list", "watch"]),
        (
            GROUP,
            "volumesnapshotcontents",
            &[
                "create", "get", "list", "watch", "update", "delete", "patch",
            ],
        ),
        (
            GROUP,
            "volumesnapshots",
            &[
                "create", "get", "list", "watch", "update", "patch", "delete",
            ],
        ),
        (GROUP, "volumesnapshots/status", &["update", "patch"]),
        (GROUP, "volumesnapshotcontents/status", &["patch"]),
        (
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshotclasses",
            &["get", "list", "watch"],
        ),
        (
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshotcontents",
            &[
                "create", "get", "list", "watch", "update", "delete", "patch",
            ],
        ),
        (
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshots",
            &["get", "list", "watch", "update", "patch"],
        ),
        (
            GROUP_SNAPSHOT_GROUP,
            "volumegroupsnapshots/status",
            &["update", "patch"],
        ),
    ];

    #[test]
    fn nothing_is_used_that_the_replaced_manifest_does_not_grant() {
        for (distributed, groups) in [(false, true), (true, true), (false, false)] {
            let settings = Settings {
                distributed,
                ..Settings::default()
            };
            let rules = rules(settings, groups);
            assert_eq!(
                rules.iter().any(|rule| rule.resource == "nodes"),
                distributed
            );
            for rule in rules {
                let granted = GRANTED.iter().find(|(group, resource, _)| {
                    (*group, *resource) == (rule.group, rule.resource)
                });
                let (_, _, verbs) = granted.unwrap_or_else(|| panic!("{rule:?}"));
                assert!(
                    rule.verbs.iter().all(|verb| verbs.contains(verb)),
                    "{rule:?}"
                );
            }
        }
    }
}
