//! RBAC rules split into grants: one resource and one verb each.

use std::collections::BTreeSet;
use std::fmt;

use e2e::api::text;
use serde_json::Value;

use super::rendered::items;

/// A right to use one verb on one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Grant {
    /// Namespace of a Role; `None` is the whole cluster.
    pub(super) namespace: Option<String>,
    pub(super) group: String,
    /// Including the subresource, as in `volumeattachments/status`.
    pub(super) resource: String,
    /// The only object it applies to; `None` is all.
    pub(super) name: Option<String>,
    pub(super) verb: String,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in {namespace}"),
            None => Ok(()),
        }
    }
}

/// The grants of the Roles and ClusterRoles among the objects.
pub(super) fn grants(objects: &[Value]) -> BTreeSet<Grant> {
    objects.iter().flat_map(of_role).collect()
}

fn of_role(role: &Value) -> Vec<Grant> {
    let mut grants = Vec::new();
    for rule in items(role, "/rules") {
        let texts = |pointer| {
            let texts = items(rule, pointer).filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        let mut names: Vec<_> = texts("/resourceNames").into_iter().map(Some).collect();
        if names.is_empty() {
            names.push(None);
        }
        for group in texts("/apiGroups") {
            for resource in texts("/resources") {
                for verb in texts("/verbs") {
                    grants.extend(names.iter().map(|name| Grant {
                        namespace: text(role, "/metadata/namespace").map(str::to_owned),
                        group: group.clone(),
                        resource: resource.clone(),
                        name: name.clone(),
                        verb: verb.clone(),
                    }));
                }
            }
        }
    }
    grants
}

/// The role's rules without this grant; `None` if the role lacks it.
pub(super) fn without(role: &Value, grant: &Grant) -> Option<Value> {
    if !of_role(role).contains(grant) {
        return None;
    }
    let mut role = role.clone();
    let kept: Vec<_> = of_role(&role)
        .into_iter()
        .filter(|it| it != grant)
        .collect();
    let rules = kept.iter().map(|it| {
        let mut rule = serde_json::json!({
            "apiGroups": [it.group], "resources": [it.resource], "verbs": [it.verb],
        });
        if let (Some(name), Some(fields)) = (&it.name, rule.as_object_mut()) {
            fields.insert("resourceNames".to_owned(), serde_json::json!([name]));
        }
        rule
    });
    let rules = rules.collect();
    role.as_object_mut()?.insert("rules".to_owned(), rules);
    Some(role)
}
