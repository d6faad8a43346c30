//! Parses the URL of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::kind::Kind;

/// The object or collection of a request.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// Its type.
    pub(super) kind: Arc<Kind>,
    /// Its namespace; empty for cluster-scoped types and for lists over all namespaces.
    pub(super) namespace: String,
    /// Its name, unless the target is a collection.
    pub(super) name: Option<String>,
    /// `status`, `token` and the like.
    pub(super) subresource: Option<String>,
}

/// The handler of a request.
#[derive(Clone, Debug)]
pub(super) enum Route {
    Resource(Target),
    /// `/api`, `/apis`.
    Groups,
    /// `/api/v1`, `/apis/GROUP/VERSION`.
    Resources {
        group: String,
        version: String,
    },
    Version,
    Health,
    Unknown,
}

pub(super) fn route(kinds: &[Arc<Kind>], path: &str) -> Route {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    match segments.as_slice() {
        ["healthz" | "readyz" | "livez", ..] => Route::Health,
        ["version"] => Route::Version,
        ["api"] | ["apis"] => Route::Groups,
        ["api", version] => Route::Resources {
            group: String::new(),
            version: (*version).to_owned(),
        },
        ["apis", group, version] => Route::Resources {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
        },
        ["api", version, rest @ ..] => resource(kinds, "", version, rest),
        ["apis", group, version, rest @ ..] => resource(kinds, group, version, rest),
        _ => Route::Unknown,
    }
}

fn resource(kinds: &[Arc<Kind>], group: &str, version: &str, rest: &[&str]) -> Route {
    let (namespace, rest) = match rest {
        ["namespaces", _, "status" | "finalize"] => ("", rest),
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (*plural, None, None),
        [plural, name] => (*plural, Some(*name), None),
        [plural, name, sub] => (*plural, Some(*name), Some(*sub)),
        _ => return Route::Unknown,
    };
    let found = kinds
        .iter()
        .filter(|kind| kind.group == group && kind.resource == plural)
        .find_map(|kind| kind.under(version));
    match found {
        Some(kind) => Route::Resource(Target {
            kind,
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        }),
        None => match review(group, plural) {
            Some(kind) => Route::Resource(Target {
                kind: Arc::new(Kind::new(group, version, plural, kind)),
                namespace: String::new(),
                name: None,
                subresource: None,
            }),
            None => Route::Unknown,
        },
    }
}

fn review(group: &str, plural: &str) -> Option<&'static str> {
    Some(match (group, plural) {
        ("authorization.k8s.io", "selfsubjectaccessreviews") => "SelfSubjectAccessReview",
        ("authorization.k8s.io", "subjectaccessreviews") => "SubjectAccessReview",
        ("authentication.k8s.io", "tokenreviews") => "TokenReview",
        _ => return None,
    })
}

/// The decoded parameters of a query string; the last of several with the same name wins.
pub(super) fn parameters(query: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}
