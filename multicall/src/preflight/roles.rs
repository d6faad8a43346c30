//! The permissions of a workload's account, from the roles and bindings of the input.
//!
//! Rules are read as the API server's authorizer reads them. If a binding's role is not in the input, its
//! permissions are unknown, never missing.

use std::collections::BTreeMap;

use serde_json::Value;
use sidecar::kube::access::Rule;

use super::input::{Input, Object, Roles, list, text, texts};

/// Whether a permission is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    Yes,
    No,
    /// The input lacks a role, or has no binding of the account.
    Unknown,
}

/// A question to the authorizer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) group: &'a str,
    /// With the subresource after a slash.
    pub(crate) resource: &'a str,
    pub(crate) verb: &'a str,
    /// Empty means all namespaces.
    pub(crate) namespace: &'a str,
    /// The object in question; `None` means all objects.
    pub(crate) named: Option<&'a Named>,
}

/// The name of an object, as far as the manifests determine it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) begins: String,
    /// Whether `begins` is the complete name; otherwise a driver's name follows.
    pub(crate) whole: bool,
}

impl Named {
    fn is(&self, name: &str) -> bool {
        match self.whole {
            true => name == self.begins,
            false => name.starts_with(&*self.begins),
        }
    }
}

/// A service account with the rules bound to it.
#[derive(Debug)]
pub(crate) struct Account<'a> {
    /// Rules with the namespace of their binding; `None` for the whole cluster.
    rules: Vec<(Option<&'a str>, &'a Value)>,
    /// The input lacks some of its roles, or all of its bindings.
    partial: bool,
    /// Whether roles within namespaces are known: all were listed, or the input has a RoleBinding of the account.
    within: bool,
    /// The API server's access reviews, by question, if any.
    reviewed: BTreeMap<String, bool>,
}

/// The built-in role that permits everything.
const ADMIN: &str = "cluster-admin";

/// Whether a subject is this account; subjects without a namespace inherit `place`, the RoleBinding's.
fn named(subject: &Value, place: Option<&str>, namespace: &str, name: &str) -> bool {
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let groups = [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    let called = text(subject, "/name");
    match text(subject, "/kind") {
        "ServiceAccount" => {
            let own = Some(text(subject, "/namespace")).filter(|own| !own.is_empty());
            called == name && own.or(place) == Some(namespace)
        }
        "User" => called == user,
        "Group" => groups.iter().any(|group| group == called),
        _ => false,
    }
}

impl<'a> Account<'a> {
    /// The account of a workload's pods.
    pub(crate) fn of(input: &'a Input, workload: &Object) -> Self {
        let (namespace, name) = Self::name_of(workload);
        Self::called(input, &namespace, &name)
    }

    /// The account's namespace and name.
    pub(crate) fn name_of(workload: &Object) -> (String, String) {
        let spec = super::container::template(workload);
        let name = match text(spec, "/serviceAccountName") {
            "" => "default",
            name => name,
        };
        (workload.namespace.clone(), name.to_owned())
    }

    /// The account of this name.
    pub(crate) fn called(input: &'a Input, namespace: &str, name: &str) -> Self {
        let mut account = Self {
            rules: Vec::new(),
            partial: input.roles == Roles::Partial,
            within: input.roles == Roles::Whole,
            reviewed: BTreeMap::new(),
        };
        let mut bound = false;
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            for binding in input.of_kind(kind) {
                let place = (kind == "RoleBinding").then_some(&*binding.namespace);
                let mut subjects = list(&binding.value, "/subjects").iter();
                if !subjects.any(|subject| named(subject, place, namespace, name)) {
                    continue;
                }
                bound = true;
                account.within |= place.is_some();
                account.bind(input, binding, place);
            }
        }
        account.partial |= !bound && input.roles != Roles::Whole;
        account
    }

    fn bind(&mut self, input: &'a Input, binding: &'a Object, place: Option<&'a str>) {
        let kind = text(&binding.value, "/roleRef/kind");
        let name = text(&binding.value, "/roleRef/name");
        let mut roles = input.of_kind(kind).filter(|role| role.name == name);
        let role = match kind {
            "Role" => roles.find(|role| role.namespace == binding.namespace),
            _ => roles.next(),
        };
        let Some(role) = role else {
            match name {
                ADMIN => self.rules.push((place, everything())),
                _ => self.partial |= input.roles != Roles::Whole,
            }
            return;
        };
        self.rules
            .extend(rules_of(input, role).map(|rule| (place, rule)));
    }

    /// Adds the API server's access reviews, which override roles.
    pub(crate) fn reviewed(mut self, answers: BTreeMap<String, bool>) -> Self {
        self.reviewed = answers;
        self
    }

    /// Whether the account has the permission.
    pub(crate) fn may(&self, question: Question<'_>) -> Grant {
        if let Some(answer) = self.reviewed.get(&key(question)) {
            return if *answer { Grant::Yes } else { Grant::No };
        }
        let granted = self.rules.iter().any(|(place, rule)| {
            place.is_none_or(|place| place == question.namespace) && grants(rule, question)
        });
        // Charts often leave a namespace's roles to the administrator.
        let elsewhere = !question.namespace.is_empty() && !self.within;
        match (granted, self.partial || elsewhere) {
            (true, _) => Grant::Yes,
            (false, true) => Grant::Unknown,
            (false, false) => Grant::No,
        }
    }

    /// The verbs of a rule that are not granted, and whether some are unknown. `named` is the rule's only object.
    pub(crate) fn lacks(&self, rule: &Rule, named: Option<&Named>) -> (Vec<&'static str>, bool) {
        let (mut missing, mut unknown) = (Vec::new(), false);
        for verb in rule.verbs {
            let question = Question {
                group: rule.group,
                resource: rule.resource,
                verb,
                namespace: rule.namespace.as_deref().unwrap_or_default(),
                named,
            };
            match self.may(question) {
                Grant::Yes => {}
                Grant::No => missing.push(*verb),
                Grant::Unknown => unknown = true,
            }
        }
        (missing, unknown)
    }
}

/// The key of a question's review.
pub(crate) fn key(question: Question<'_>) -> String {
    let Question {
        group,
        resource,
        verb,
        namespace,
        named,
    } = question;
    let named = named.filter(|_| verb != "create");
    let named = named.map(|named| &*named.begins).unwrap_or_default();
    format!("{verb} {group}/{resource} {namespace} {named}")
}

/// The rule of [`ADMIN`].
fn everything() -> &'static Value {
    static RULE: std::sync::LazyLock<Value> = std::sync::LazyLock::new(
        || serde_json::json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
    );
    &RULE
}

/// A role's rules; an aggregated role has the rules of the roles that it selects.
fn rules_of<'a>(input: &'a Input, role: &'a Object) -> Box<dyn Iterator<Item = &'a Value> + 'a> {
    let selectors = list(&role.value, "/aggregationRule/clusterRoleSelectors");
    let own = list(&role.value, "/rules").iter();
    if selectors.is_empty() {
        return Box::new(own);
    }
    let others = input.of_kind("ClusterRole").filter(move |other| {
        other.name != role.name
            && selectors
                .iter()
                .any(|selector| selects(selector, &other.value))
    });
    Box::new(own.chain(others.flat_map(|other| list(&other.value, "/rules"))))
}

fn selects(selector: &Value, object: &Value) -> bool {
    let label = |name: &str| object.pointer("/metadata/labels")?.get(name)?.as_str();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut labels = labels.into_iter().flatten();
    let mut expressions = list(selector, "/matchExpressions").iter();
    labels.all(|(name, value)| label(name) == value.as_str())
        && expressions.all(|one| {
            let value = label(text(one, "/key"));
            let listed = value.is_some_and(|value| texts(one, "/values").contains(&value));
            match text(one, "/operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// Whether one rule grants it, as for the RBAC authorizer: a rule with `resourceNames` grants nothing for all objects.
fn grants(rule: &Value, question: Question<'_>) -> bool {
    let has = |pointer: &str, wanted: &str| {
        let all = texts(rule, pointer);
        all.contains(&"*") || all.contains(&wanted)
    };
    let resource = question.resource;
    let below = resource
        .split_once('/')
        .map(|(_, below)| format!("*/{below}"));
    let resources = texts(rule, "/resources");
    let named =
        has("/resources", resource) || below.is_some_and(|below| resources.contains(&&*below));
    has("/verbs", question.verb)
        && has("/apiGroups", question.group)
        && named
        && is_for(&texts(rule, "/resourceNames"), question)
}

/// Whether a rule for these names covers the question. A create request has no object name for the authorizer.
fn is_for(names: &[&str], question: Question<'_>) -> bool {
    let Some(named) = question.named.filter(|_| question.verb != "create") else {
        return names.is_empty();
    };
    names.is_empty() || names.iter().any(|name| named.is(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_13_rules_for_certain_names() {
        let (whole, begins) = (true, "snapshot-controller-leader");
        let lease = Named {
            begins: begins.to_owned(),
            whole,
        };
        let of_driver = Named {
            begins: "external-attacher-leader-".to_owned(),
            whole: false,
        };
        for (names, verb, named, expected) in [
            ("[]", "get", None, Grant::Yes),
            ("[]", "create", Some(&lease), Grant::Yes),
            ("[x]", "get", None, Grant::No),
            ("[x]", "get", Some(&lease), Grant::No),
            (
                "[snapshot-controller-leader]",
                "get",
                Some(&lease),
                Grant::Yes,
            ),
            (
                "[snapshot-controller-leader]",
                "create",
                Some(&lease),
                Grant::No,
            ),
            (
                "[external-attacher-leader-d]",
                "update",
                Some(&of_driver),
                Grant::Yes,
            ),
            (
                "[external-resizer-d]",
                "update",
                Some(&of_driver),
                Grant::No,
            ),
        ] {
            let input = input(&format!(
                "{BOUND}kind: ClusterRole\nmetadata: {{name: r}}\nrules: [{{apiGroups: [c], resources: [leases], verbs: [\"*\"], resourceNames: {names}}}]\n"
            ));
            let question = Question {
                group: "c",
                resource: "leases",
                verb,
                namespace: "",
                named,
            };
            let granted = Account::called(&input, "csi", "a").may(question);
            assert_eq!(granted, expected, "{names} {verb} {named:?}");
        }
    }

    /// A permission that no ClusterRole grants may still come from a Role that could not be seen.
    #[test]
    fn p_13_roles_of_namespaces_that_were_not_seen_are_unknown() {
        let role = "kind: ClusterRole\nmetadata: {name: r}\nrules: []\n";
        let within = "---\nkind: RoleBinding\nmetadata: {name: w, namespace: csi}\nsubjects: [{kind: ServiceAccount, name: a}]\nroleRef: {kind: ClusterRole, name: r}\n";
        let elsewhere = "---\nkind: RoleBinding\nmetadata: {name: w, namespace: csi}\nsubjects: [{kind: ServiceAccount, name: b}]\nroleRef: {kind: ClusterRole, name: r}\n";
        let both = format!("{BOUND}{role}");
        for (text, roles, cluster, namespaced) in [
            (both.clone(), Roles::Given, Grant::No, Grant::Unknown),
            (
                format!("{both}{elsewhere}"),
                Roles::Given,
                Grant::No,
                Grant::Unknown,
            ),
            (
                format!("{both}{within}"),
                Roles::Given,
                Grant::No,
                Grant::No,
            ),
            (both.clone(), Roles::Partial, Grant::Unknown, Grant::Unknown),
            (both.clone(), Roles::Whole, Grant::No, Grant::No),
            (role.to_owned(), Roles::Whole, Grant::No, Grant::No),
            (
                role.to_owned(),
                Roles::Given,
                Grant::Unknown,
                Grant::Unknown,
            ),
        ] {
            let mut input = input(&text);
            input.roles = roles;
            let account = Account::called(&input, "csi", "a");
            let ask = |namespace| {
                account.may(Question {
                    group: "",
                    resource: "pods",
                    verb: "list",
                    namespace,
                    named: None,
                })
            };
            assert_eq!(
                (ask(""), ask("csi")),
                (cluster, namespaced),
                "{roles:?} {text}"
            );
        }
    }

    fn input(text: &str) -> Input {
        Input::parse("roles.yaml", text.to_owned(), "csi")
    }

    const BOUND: &str = "
kind: ClusterRoleBinding
metadata: {name: b}
subjects: [{kind: ServiceAccount, name: a, namespace: csi}]
roleRef: {kind: ClusterRole, name: r}
---
";

    #[test]
    fn p_13_rules_are_read_as_the_authorizer_reads_them() {
        let ask = |rules: &str, resource: &str, verb: &str| {
            let role =
                format!("{BOUND}kind: ClusterRole\nmetadata: {{name: r}}\nrules: [{rules}]\n");
            let input = input(&role);
            Account::called(&input, "csi", "a").may(Question {
                group: "storage.k8s.io",
                resource,
                verb,
                namespace: "",
                named: None,
            })
        };
        let own =
            r#"{apiGroups: ["storage.k8s.io"], resources: ["volumeattachments"], verbs: ["get"]}"#;
        for (rules, resource, verb, expected) in [
            (own, "volumeattachments", "get", Grant::Yes),
            (own, "volumeattachments", "list", Grant::No),
            (own, "volumeattachments/status", "get", Grant::No),
            (own, "csinodes", "get", Grant::No),
            ("", "volumeattachments", "get", Grant::No),
            (
                r#"{apiGroups: [""], resources: ["*"], verbs: ["*"]}"#,
                "csinodes",
                "get",
                Grant::No,
            ),
            (
                r#"{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}"#,
                "volumeattachments/status",
                "patch",
                Grant::Yes,
            ),
            (
                r#"{apiGroups: ["storage.k8s.io"], resources: ["*/status"], verbs: ["patch"]}"#,
                "volumeattachments/status",
                "patch",
                Grant::Yes,
            ),
            (
                r#"{apiGroups: ["storage.k8s.io"], resources: ["*/status"], verbs: ["patch"]}"#,
                "volumeattachments",
                "patch",
                Grant::No,
            ),
            (
                r#"{apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: ["get"], resourceNames: ["n"]}"#,
                "csinodes",
                "get",
                Grant::No,
            ),
        ] {
            assert_eq!(
                ask(rules, resource, verb),
                expected,
                "{rules}: {verb} {resource}"
            );
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn p_13_bindings_name_accounts_users_and_groups() {
        const ROLE: &str = "kind: ClusterRole\nmetadata: {name: r, labels: {x: y}}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [list]}]\n";
        let ask = |binding: &str, namespace: &str| {
            let input = input(&format!("{binding}\n---\n{ROLE}"));
            Account::called(&input, "csi", "a").may(Question {
                group: "",
                resource: "pods",
                verb: "list",
                namespace,
                named: None,
            })
        };
        let bind = |kind: &str, subject: &str, role: &str| {
            format!(
                "kind: {kind}\nmetadata: {{name: b, namespace: csi}}\nsubjects: [{subject}]\nroleRef: {role}"
            )
        };
        let own = "{kind: ServiceAccount, name: a, namespace: csi}";
        let role = "{kind: ClusterRole, name: r}";
        for (binding, namespace, expected) in [
            (bind("ClusterRoleBinding", own, role), "", Grant::Yes),
            (bind("ClusterRoleBinding", own, role), "other", Grant::Yes),
            (bind("RoleBinding", own, role), "csi", Grant::Yes),
            // A subject of a RoleBinding inherits its namespace, one of a ClusterRoleBinding has none.
            (
                bind("RoleBinding", "{kind: ServiceAccount, name: a}", role),
                "csi",
                Grant::Yes,
            ),
            (
                bind(
                    "ClusterRoleBinding",
                    "{kind: ServiceAccount, name: a}",
                    role,
                ),
                "csi",
                Grant::Unknown,
            ),
            (bind("RoleBinding", own, role), "other", Grant::No),
            (bind("RoleBinding", own, role), "", Grant::No),
            (
                bind(
                    "ClusterRoleBinding",
                    "{kind: Group, name: \"system:serviceaccounts:csi\"}",
                    role,
                ),
                "",
                Grant::Yes,
            ),
            (
                bind(
                    "ClusterRoleBinding",
                    "{kind: Group, name: \"system:serviceaccounts\"}",
                    role,
                ),
                "",
                Grant::Yes,
            ),
            (
                bind(
                    "ClusterRoleBinding",
                    "{kind: User, name: \"system:serviceaccount:csi:a\"}",
                    role,
                ),
                "",
                Grant::Yes,
            ),
            // Another account's binding: the input has nothing about this account.
            (
                bind(
                    "ClusterRoleBinding",
                    "{kind: ServiceAccount, name: a, namespace: other}",
                    role,
                ),
                "",
                Grant::Unknown,
            ),
            // The role is not in the input.
            (
                bind(
                    "ClusterRoleBinding",
                    own,
                    "{kind: ClusterRole, name: elsewhere}",
                ),
                "",
                Grant::Unknown,
            ),
            (
                bind(
                    "ClusterRoleBinding",
                    own,
                    "{kind: ClusterRole, name: cluster-admin}",
                ),
                "",
                Grant::Yes,
            ),
            (String::new(), "", Grant::Unknown),
            (
                format!(
                    "{}\n---\nkind: ClusterRole\nmetadata: {{name: all}}\naggregationRule: {{clusterRoleSelectors: [{{matchLabels: {{x: y}}}}]}}",
                    bind("ClusterRoleBinding", own, "{kind: ClusterRole, name: all}")
                ),
                "",
                Grant::Yes,
            ),
            (
                format!(
                    "{}\n---\nkind: ClusterRole\nmetadata: {{name: all}}\naggregationRule: {{clusterRoleSelectors: [{{matchLabels: {{x: z}}}}]}}",
                    bind("ClusterRoleBinding", own, "{kind: ClusterRole, name: all}")
                ),
                "",
                Grant::No,
            ),
        ] {
            assert_eq!(ask(&binding, namespace), expected, "{binding}");
        }
    }
}
