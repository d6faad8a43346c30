//! Who may do what: the rule table behind access reviews and 403.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::refusal::Refusal;
use super::route::Target;

/// The user that the model's messages speak of.
pub(super) const USER: &str = "system:serviceaccount:default:sidecar";

/// One RBAC rule; `*` in a list stands for everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allow {
    /// Namespace of a Role; `None` for a ClusterRole.
    pub namespace: Option<String>,
    /// `apiGroups`.
    pub groups: Vec<String>,
    /// `resources`, with the subresource as in `pods/status`.
    pub resources: Vec<String>,
    /// `verbs`.
    pub verbs: Vec<String>,
}

impl Allow {
    /// A ClusterRole rule for one group and these resources and verbs, separated by commas.
    #[must_use]
    pub fn new(group: &str, resources: &str, verbs: &str) -> Self {
        let list = |text: &str| text.split(',').map(|item| item.trim().to_owned()).collect();
        Self {
            namespace: None,
            groups: vec![group.to_owned()],
            resources: list(resources),
            verbs: list(verbs),
        }
    }

    /// The same rule in a Role of `namespace`.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    fn covers(&self, attributes: &Attributes<'_>) -> bool {
        let has =
            |list: &[String], item: &str| list.iter().any(|entry| entry == "*" || entry == item);
        self.namespace
            .as_deref()
            .is_none_or(|namespace| namespace == attributes.namespace)
            && has(&self.groups, attributes.group)
            && has(&self.resources, &attributes.resource)
            && has(&self.verbs, attributes.verb)
    }
}

/// What a request asks for.
pub(super) struct Attributes<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    /// With the subresource as in `pods/status`.
    pub(super) resource: String,
    pub(super) namespace: &'a str,
}

/// The table; without one everything is allowed.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) rules: Option<Vec<Allow>>,
    /// The `Authorization` headers that tell who somebody is; without them anybody is somebody.
    pub(super) known: Option<BTreeSet<String>>,
}

impl Access {
    pub(super) fn authenticate(&self, authorization: &str) -> Result<(), Refusal> {
        match &self.known {
            Some(known) if !known.contains(authorization) => Err(Refusal::new(401, "Unauthorized")),
            _ => Ok(()),
        }
    }

    pub(super) fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let rules = self.rules.as_ref();
        rules.is_none_or(|rules| rules.iter().any(|rule| rule.covers(attributes)))
    }

    /// Refuses a request that the table does not allow.
    pub(super) fn check(&self, verb: &str, target: &Target) -> Result<(), Refusal> {
        let kind = &target.kind;
        let resource = match &target.subresource {
            Some(sub) => format!("{}/{sub}", kind.resource),
            None => kind.resource.clone(),
        };
        let attributes = Attributes {
            verb,
            group: &kind.group,
            resource: resource.clone(),
            namespace: &target.namespace,
        };
        // Every authenticated user may ask what it may do (system:basic-user).
        if kind.group == "authorization.k8s.io" || self.allows(&attributes) {
            return Ok(());
        }
        let name = target.name.as_ref();
        let object = name.map(|name| format!(" \"{name}\"")).unwrap_or_default();
        let scope = if target.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", target.namespace)
        };
        Err(Refusal::new(
            403,
            format!(
                "{}{object} is forbidden: User \"{USER}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {scope}",
                kind.qualified(),
                kind.group
            ),
        ))
    }

    /// Answers a `SelfSubjectAccessReview`.
    pub(super) fn review(&self, mut review: Value) -> Value {
        let asked = &review["spec"]["resourceAttributes"];
        let text = |field: &str| asked[field].as_str().unwrap_or_default();
        let resource = match text("subresource") {
            "" => text("resource").to_owned(),
            sub => format!("{}/{sub}", text("resource")),
        };
        let allowed = self.allows(&Attributes {
            verb: text("verb"),
            group: text("group"),
            resource,
            namespace: text("namespace"),
        });
        review["status"] = json!({ "allowed": allowed });
        review["metadata"] = json!({});
        review
    }
}

/// The RBAC verb of a request.
pub(super) fn verb(method: &str, target: &Target, watch: bool) -> &'static str {
    match (method, target.name.is_some()) {
        ("GET", _) if watch => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        _ => "",
    }
}
