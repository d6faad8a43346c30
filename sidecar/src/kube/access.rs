//! The check, at the start, of what the program may do.
//!
//! A missing RBAC rule otherwise shows as a watch that never syncs or a patch that fails for ever.
//! The API server is asked about each verb (`SelfSubjectAccessReview`, which every authenticated
//! client may create), and what is missing is named in the form in which it goes into a Role. The
//! check never stops a program from working: if it cannot be made, that is said and no more.

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

/// Questions asked at the same time.
const AT_ONCE: usize = 4;

/// Between two questions while a permission is missing.
const ASK_AGAIN: Duration = Duration::from_secs(10);
const ASK_LEAST_OFTEN: Duration = Duration::from_secs(60);

/// For all questions together; a program that starts while the API server is away must not hang.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether the program can do its work without a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It cannot.
    Required,
    /// Something is left out, which the text says.
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
    /// The namespace in which it is needed; `None` is the whole cluster.
    pub namespace: Option<String>,
    /// What happens without it.
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

    /// The same rule, without which the program leaves something out: `without` says what.
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

/// A rule of which some verbs are not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The rule.
    pub rule: Rule,
    /// The verbs that are not granted.
    pub verbs: Vec<&'static str>,
}

/// The rule as it goes into a manifest, and where.
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

/// What the check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Rules that are not granted, in the order in which they were asked for.
    pub missing: Vec<Missing>,
    /// Why some questions have no answer, if so.
    pub unknown: Option<String>,
}

impl Report {
    /// The server answered every question and no required rule is missing.
    pub fn is_complete(&self) -> bool {
        self.unknown.is_none()
            && !self
                .missing
                .iter()
                .any(|missing| missing.rule.need == Need::Required)
    }

    /// Whether these verbs are all granted, as far as is known.
    pub fn grants(&self, group: &str, resource: &str) -> bool {
        !self
            .missing
            .iter()
            .any(|missing| missing.rule.group == group && missing.rule.resource == resource)
    }

    /// The same without the optional rules that are missing: those go to the log for who asks for
    /// more, since the shipped manifests leave them out.
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

/// Says which permissions are missing, by this first report, and asks for them again until there are all.
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

/// Asks the API server about every verb of every rule.
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
                    // The others would fare no better.
                    report.unknown = Some(Chain(&error).to_string());
                    break;
                }
            }
        }
    };
    if timeout(PATIENCE, all).await.is_err() {
        report.unknown = Some(format!("no answer within {} s", PATIENCE.as_secs()));
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
