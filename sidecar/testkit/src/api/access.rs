//! Access rules: the table behind access reviews and 403.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::FakeApi;
use super::refusal::Refusal;
use super::route::Target;

/// Audience of tokens for the API server itself.
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The user in the model's messages.
pub(super) const USER: &str = "system:serviceaccount:default:sidecar";

/// One RBAC rule; `*` in a list matches everything.
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

/// The attributes of a request.
pub(super) struct Attributes<'a> {
    pub(super) verb: &'a str,
    pub(super) group: &'a str,
    /// With the subresource as in `pods/status`.
    pub(super) resource: String,
    pub(super) namespace: &'a str,
}

/// The access rules; without a table everything is allowed.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) rules: Option<Vec<Allow>>,
    /// The accepted `Authorization` headers; without them all clients are authenticated.
    pub(super) known: Option<BTreeSet<String>>,
    /// Users and audiences of tokens that TokenReviews accept.
    pub(super) tokens: BTreeMap<String, (String, Vec<String>)>,
    /// Permissions of users other than the program.
    pub(super) grants: Vec<(String, Allow)>,
    /// User, verb and path of permissions on non-resource paths.
    pub(super) paths: Vec<(String, String, String)>,
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

    /// Refuses a request that no rule allows.
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
        // Every authenticated user may review its own access (system:basic-user).
        if kind.kind == "SelfSubjectAccessReview" || self.allows(&attributes) {
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
        let allowed = self.allows(&asked(&review));
        review["status"] = json!({ "allowed": allowed });
        review["metadata"] = json!({});
        review
    }

    /// Answers a `SubjectAccessReview`.
    pub(super) fn review_user(&self, mut review: Value) -> Value {
        let attributes = asked(&review);
        let user = review["spec"]["user"].as_str().unwrap_or_default();
        let about = &review["spec"]["nonResourceAttributes"];
        let allowed = if about.is_object() {
            let mut paths = self.paths.iter();
            paths.any(|(who, verb, path)| {
                who == user && about["verb"] == **verb && about["path"] == **path
            })
        } else {
            let mut grants = self.grants.iter();
            grants.any(|(who, rule)| who == user && rule.covers(&attributes))
        };
        review["status"] = if allowed {
            json!({"allowed": true, "reason": "RBAC: allowed by a RoleBinding"})
        } else {
            json!({"allowed": false, "reason": "no RBAC policy matched"})
        };
        review["metadata"] = json!({});
        review
    }

    /// Answers a `TokenReview`.
    pub(super) fn review_token(&self, mut review: Value) -> Value {
        let spec = &review["spec"];
        let token = spec["token"].as_str().unwrap_or_default();
        let mut asked: Vec<&str> = { spec["audiences"].as_array().into_iter().flatten() }
            .filter_map(Value::as_str)
            .collect();
        if asked.is_empty() {
            asked.push(AUDIENCE);
        }
        let refused = json!({"user": {}, "error": "invalid bearer token"});
        review["status"] = match self.tokens.get(token) {
            None => refused,
            Some((user, audiences)) => {
                let mut common = audiences.clone();
                common.retain(|one| asked.contains(&one.as_str()));
                let user = json!({
                    "username": user, "uid": format!("uid-of-{user}"),
                    "groups": ["system:serviceaccounts", "system:authenticated"],
                    "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
                });
                if common.is_empty() {
                    refused
                } else {
                    json!({"authenticated": true, "audiences": common, "user": user})
                }
            }
        };
        review["metadata"] = json!({});
        review
    }
}

impl FakeApi {
    /// Issues a user's token for these audiences, which a TokenReview then accepts.
    pub fn issue_token(&self, token: &str, user: &str, audiences: &[&str]) {
        let audiences = audiences.iter().map(|&one| one.to_owned()).collect();
        let issued = (user.to_owned(), audiences);
        self.lock().access.tokens.insert(token.to_owned(), issued);
    }

    /// Revokes a token, as the deletion of its account does.
    pub fn revoke_token(&self, token: &str) {
        self.lock().access.tokens.remove(token);
    }

    /// Grants a user a verb on a non-resource path, which a SubjectAccessReview then allows.
    pub fn grant_path(&self, user: &str, verb: &str, path: &str) {
        let granted = (user.to_owned(), verb.to_owned(), path.to_owned());
        self.lock().access.paths.push(granted);
    }

    /// Grants a user this rule, which a SubjectAccessReview then allows.
    pub fn grant(&self, user: &str, rule: Allow) {
        self.lock().access.grants.push((user.to_owned(), rule));
    }
}

/// The attributes in a review.
fn asked(review: &Value) -> Attributes<'_> {
    let asked = &review["spec"]["resourceAttributes"];
    let text = |field: &str| asked[field].as_str().unwrap_or_default();
    let resource = match text("subresource") {
        "" => text("resource").to_owned(),
        sub => format!("{}/{sub}", text("resource")),
    };
    Attributes {
        verb: text("verb"),
        group: text("group"),
        resource,
        namespace: text("namespace"),
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
