//! The missing permissions of all controllers of a process, combined.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::{Missing, Need, REQUIRED, Report, Rule};

/// Controllers that start within this time share one log line.
const GATHER: Duration = Duration::from_secs(1);

/// The required permissions that the controllers of a process miss, as of each one's last check; clones
/// share them.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    known: Arc<Mutex<Known>>,
    /// Number of checks in flight.
    asking: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Known {
    found: BTreeMap<&'static str, Vec<Missing>>,
    /// The rules in the log, each with the controllers that it was logged for.
    said: BTreeMap<String, BTreeSet<&'static str>>,
}

impl Findings {
    /// Runs a controller's check and records its findings.
    pub async fn ask(
        &self,
        controller: &'static str,
        asking: impl Future<Output = Report>,
    ) -> Report {
        struct Asking<'a>(&'a watch::Sender<usize>);
        impl Drop for Asking<'_> {
            fn drop(&mut self) {
                self.0
                    .send_modify(|asking| *asking = asking.saturating_sub(1));
            }
        }
        self.asking.send_modify(|asking| *asking += 1);
        let _asking = Asking(&self.asking);
        let report = asking.await;
        let required = report.missing.iter();
        let required = required.filter(|missing| missing.rule.need == Need::Required);
        let required = required.cloned().collect();
        let mut known = self.lock();
        // A rule without an answer this time keeps its last state.
        if report.unknown.is_none() || !known.found.contains_key(controller) {
            known.found.insert(controller, required);
        }
        drop(known);
        report
    }

    /// Logs the missing rules, once for all controllers that check at the same time.
    pub async fn log(&self, report: Report) {
        report.without_optional().log_unknown();
        sleep(GATHER).await;
        // Cannot be closed: `self` holds the sender.
        let _ = self
            .asking
            .subscribe()
            .wait_for(|asking| *asking == 0)
            .await;
        for (rule, controllers) in self.lock().news() {
            let controllers = controllers.join(", ");
            tracing::error!(rule, controllers, "{REQUIRED}");
        }
    }

    /// Each missing rule with the controllers that need it.
    #[must_use]
    pub fn missing(&self) -> Vec<(String, Vec<&'static str>)> {
        self.lock().missing()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Lists each verb in one rule only: controllers that use a resource differ in their verbs.
    fn missing(&self) -> Vec<(String, Vec<&'static str>)> {
        let mut verbs: Vec<(Missing, Vec<&'static str>)> = Vec::new();
        for (controller, missing) in &self.found {
            for one in missing.iter().flat_map(single_verbs) {
                match verbs.iter_mut().find(|(known, _)| is_same(known, &one)) {
                    Some((_, controllers)) => controllers.push(controller),
                    None => verbs.push((one, vec![controller])),
                }
            }
        }
        let mut rules: Vec<(Missing, Vec<&'static str>)> = Vec::new();
        for (one, controllers) in verbs {
            let mut known = rules.iter_mut();
            let known = known.find(|(known, of)| *of == controllers && is_beside(known, &one));
            match known {
                Some((known, _)) => known.verbs.extend(one.verbs),
                None => rules.push((one, controllers)),
            }
        }
        let rules = rules.into_iter();
        rules.map(|(rule, of)| (rule.to_string(), of)).collect()
    }

    /// The missing rules that are not logged yet for at least one controller.
    fn news(&mut self) -> Vec<(String, Vec<&'static str>)> {
        let missing = self.missing();
        let is_new = |(rule, of): &&(String, Vec<&'static str>)| {
            let said = self.said.get(rule);
            of.iter()
                .any(|name| said.is_none_or(|said| !said.contains(name)))
        };
        let news = missing.iter().filter(is_new).cloned().collect();
        let said = missing.into_iter();
        self.said = said
            .map(|(rule, of)| (rule, of.into_iter().collect()))
            .collect();
        news
    }
}

fn single_verbs(missing: &Missing) -> impl Iterator<Item = Missing> {
    let rule = &missing.rule;
    missing.verbs.iter().map(|verb| Missing {
        rule: rule.clone(),
        verbs: vec![*verb],
    })
}

fn is_beside(one: &Missing, other: &Missing) -> bool {
    let of = |rule: &Rule| (rule.group, rule.resource, rule.namespace.clone());
    of(&one.rule) == of(&other.rule)
}

fn is_same(one: &Missing, other: &Missing) -> bool {
    is_beside(one, other) && one.verbs == other.verbs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(resource: &'static str, verbs: &'static [&'static str]) -> Missing {
        Missing {
            rule: Rule::required("", resource, verbs),
            verbs: verbs.to_vec(),
        }
    }

    #[test]
    fn a_33_each_verb_is_named_once_with_the_controllers_that_miss_it() {
        let claims = missing("persistentvolumeclaims", &["list", "watch"]);
        let mut known = Known::default();
        let all = missing("persistentvolumes", &["get", "list", "watch"]);
        known.found.insert("attacher", vec![all]);
        let some = missing("persistentvolumes", &["list", "watch"]);
        known.found.insert("resizer", vec![some, claims]);
        let volumes = |verbs| {
            format!(
                "- {{apiGroups: [\"\"], resources: [\"persistentvolumes\"], verbs: [{verbs}]}} in a ClusterRole"
            )
        };
        let expected = [
            (volumes("\"get\""), vec!["attacher"]),
            (volumes("\"list\", \"watch\""), vec!["attacher", "resizer"]),
        ];
        let missing = known.missing();
        assert_eq!(missing[..2], expected);
        assert_eq!(missing.len(), 3, "{missing:#?}");

        assert_eq!(known.news(), missing);
        assert!(known.news().is_empty(), "said once");
        known.found.insert("resizer", Vec::new());
        let news = known.news();
        assert_eq!(news.len(), 1, "the attacher's own line now: {news:#?}");
        known.found.insert("attacher", Vec::new());
        assert!(known.news().is_empty());
    }
}
