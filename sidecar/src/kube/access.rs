//! The check of the program's permissions at the start.
//!
//! A missing RBAC rule otherwise shows as a watch that never syncs or a patch that fails for ever. The
//! check sends one `SelfSubjectAccessReview` per verb, which every authenticated client may create, and
//! names missing rules in the form in which they go into a Role. It never stops a program from working:
//! if it fails, that is logged and no more.

mod findings;

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use ::kube::Client;
use futures_util::{StreamExt as _, stream};
use http::{Request, header};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::error::Chain;

pub use findings::Findings;

const REQUIRED: &str = "The service account lacks a permission that is required, add the rule";

/// Maximum number of reviews in flight.
const AT_ONCE: usize = 4;

/// Pause between two checks while a permission is missing.
const ASK_AGAIN: Duration = Duration::from_secs(10);
const ASK_LEAST_OFTEN: Duration = Duration::from_secs(60);

/// Time limit of all reviews together; a program that starts while the API server is away must not hang.
const REVIEWS_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the program can work without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The program cannot work without it.
    Required,
    /// The program works without something, which the text names.
    Optional(&'static str),
}

/// One RBAC rule that the program uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// Plural name, with the subresource as in `volumeattachments/status`.
    pub resource: &'static str,
    /// The verbs used.
    pub verbs: &'static [&'static str],
    /// The namespace in which it is needed; `None` means the whole cluster.
    pub namespace: Option<String>,
    /// The consequence of its absence.
    pub need: Need,
}

impl Rule {
    /// A rule for the whole cluster without which the program cannot work.
    pub const fn required(
        group: &'static str,
        resource: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self {
            group,
            resource,
            verbs,
            namespace: None,
            need: Need::Required,
        }
    }

    /// The same rule, but optional: `without` says what the program omits without it.
    #[must_use]
    pub const fn optional(mut self, without: &'static str) -> Self {
        self.need = Need::Optional(without);
        self
    }

    /// The same rule in one namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }
}

/// A rule with verbs that are not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The rule.
    pub rule: Rule,
    /// The verbs that are not granted.
    pub verbs: Vec<&'static str>,
}

/// Formats the rule for a manifest, and the place it goes to.
///
/// `- {apiGroups: ["storage.k8s.io"], resources: ["volumeattachments/status"], verbs: ["patch"]}` …
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule {
            group,
            resource,
            namespace,
            ..
        } = &self.rule;
        let verbs = self.verbs.join("\", \"");
        write!(
            f,
            "- {{apiGroups: [\"{group}\"], resources: [\"{resource}\"], verbs: [\"{verbs}\"]}}"
        )?;
        match namespace {
            Some(namespace) => write!(f, " in a Role in namespace {namespace}"),
            None => f.write_str(" in a ClusterRole"),
        }
    }
}

/// The result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rules that are not granted, in the order of the check.
    pub missing: Vec<Missing>,
    /// Why some reviews failed, if any.
    pub unknown: Option<String>,
}

impl Report {
    /// Every review succeeded and no required rule is missing.
    pub fn is_complete(&self) -> bool {
        self.unknown.is_none()
            && !self
                .missing
                .iter()
                .any(|missing| missing.rule.need == Need::Required)
    }

    /// Whether all verbs on this resource are granted, as far as is known.
    pub fn grants(&self, group: &str, resource: &str) -> bool {
        !self
            .missing
            .iter()
            .any(|missing| missing.rule.group == group && missing.rule.resource == resource)
    }

    /// The report without the missing optional rules; those are logged at a higher verbosity only, since
    /// the shipped manifests leave them out.
    #[must_use]
    pub fn without_optional(mut self) -> Self {
        self.missing.retain(|missing| match missing.rule.need {
            Need::Required => true,
            Need::Optional(without) => {
                crate::verbose!(2, rule = %missing, without, "The service account lacks an optional permission");
                false
            }
        });
        self
    }

    /// Logs one line for each missing rule, and one if the check could not be completed.
    pub fn log(&self) {
        for missing in &self.missing {
            match missing.rule.need {
                Need::Required => tracing::error!(rule = %missing, "{REQUIRED}"),
                Need::Optional(without) => tracing::warn!(
                    rule = %missing,
                    without,
                    "The service account lacks an optional permission"
                ),
            }
        }
        self.log_unknown();
    }

    fn log_unknown(&self) {
        if let Some(reason) = &self.unknown {
            tracing::warn!(
                reason,
                "Could not check the service account's permissions, continuing"
            );
        }
    }
}

/// Passes this first report of missing permissions to `say`, and checks again until all are granted.
pub async fn ask_until_granted(
    mut report: Report,
    ask: impl AsyncFn() -> Report,
    say: impl AsyncFn(Report),
) -> Infallible {
    say(report.clone()).await;
    let mut pause = ASK_AGAIN;
    while !report.is_complete() {
        sleep(pause).await;
        pause = ASK_LEAST_OFTEN.min(pause * 2);
        let known = report.missing;
        report = ask().await;
        if report.is_complete() {
            tracing::info!("The service account has all required permissions");
        } else if report.unknown.is_none() && report.missing != known {
            say(report.clone()).await;
        }
    }
    std::future::pending().await
}

/// Asks the API server for a review of every verb of every rule.
pub async fn check(client: &Client, rules: &[Rule]) -> Report {
    let mut questions = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        for verb in rule.verbs {
            questions.push(async move { (index, *verb, ask(client, rule, verb).await) });
        }
    }
    let mut report = Report::default();
    let mut refused: Vec<(usize, &'static str)> = Vec::new();
    let mut answers = stream::iter(questions).buffered(AT_ONCE);
    let all = async {
        while let Some(answer) = answers.next().await {
            match answer {
                (index, verb, Ok(false)) => refused.push((index, verb)),
                (_, _, Ok(true)) => {}
                (_, _, Err(error)) => {
                    // The other reviews would fail the same way.
                    report.unknown = Some(Chain(&error).to_string());
                    break;
                }
            }
        }
    };
    if timeout(REVIEWS_TIMEOUT, all).await.is_err() {
        report.unknown = Some(format!("no answer within {} s", REVIEWS_TIMEOUT.as_secs()));
    }
    for (index, rule) in rules.iter().enumerate() {
        let verbs = refused.iter().filter(|(of, _)| *of == index);
        let verbs: Vec<_> = verbs.map(|(_, verb)| *verb).collect();
        if !verbs.is_empty() {
            report.missing.push(Missing {
                rule: rule.clone(),
                verbs,
            });
        }
    }
    report
}

async fn ask(client: &Client, rule: &Rule, verb: &str) -> Result<bool, ::kube::Error> {
    #[derive(Deserialize)]
    struct Review {
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    struct Status {
        #[serde(default)]
        allowed: bool,
    }
    let (resource, subresource) = rule.resource.split_once('/').unwrap_or((rule.resource, ""));
    let body = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {
            "verb": verb,
            "group": rule.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": rule.namespace.as_deref().unwrap_or_default(),
        }},
    });
    let request = Request::post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        .header(header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .map_err(::kube::Error::HttpError)?;
    let answer = client.request_text(request).await?;
    let review: Review = serde_json::from_str(&answer).map_err(::kube::Error::SerdeError)?;
    Ok(review.status.allowed)
}

#[cfg(test)]
mod tests;
