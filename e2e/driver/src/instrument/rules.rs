//! Fault rules: which calls they match, and their effect on these.
//!
//! Pure: only counts and matches. Random numbers in `[0, 1)` are arguments.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// A rule as posted to the control socket.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// ID for lists, records and removal; the driver assigns one if it is empty.
    #[serde(default)]
    pub id: String,
    /// The calls that it applies to.
    #[serde(default, rename = "match")]
    pub filter: Filter,
    /// Its effect.
    pub action: Action,
}

/// The calls that a rule applies to. Absent members match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Filter {
    /// Method without service, for example `CreateVolume`.
    pub method: Option<String>,
    /// Volume or snapshot handle.
    pub volume: Option<String>,
    /// Name of a Create call; a final `*` matches any suffix.
    pub name: Option<String>,
    /// Node id of a controller call, or of the node the driver runs on.
    pub node: Option<String>,
    /// Matches calls with other secrets than exactly these; for drivers that require a password.
    pub other_secrets_than: Option<BTreeMap<String, String>>,
    /// Skip this many matching calls first.
    pub skip: u64,
    /// Apply to this many calls at most; absent: no limit.
    pub times: Option<u64>,
    /// Apply only to every nth matching call.
    pub every: Option<u64>,
}

/// The effect on a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Action {
    /// Delay before anything else.
    pub delay: Option<Latency>,
    /// Hold the call at `at` until the rule is removed.
    pub hold: bool,
    /// Do not block other calls for the same object meanwhile. By default these get ABORTED, as
    /// from a driver with a pending operation.
    pub concurrent: bool,
    /// Before the driver does the work, or after it.
    pub at: At,
    /// The caller's final result.
    pub outcome: Outcome,
}

/// The point at which hold and outcome apply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// Before the work.
    #[default]
    Before,
    /// After the work, which the driver remembers.
    After,
}

/// The caller's result.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The driver's own response.
    #[default]
    Answer,
    /// An error.
    Fail {
        /// gRPC code by name, for example `RESOURCE_EXHAUSTED`.
        code: CodeName,
        /// Message.
        #[serde(default)]
        message: String,
    },
    /// No response until the caller gives up.
    Hang,
    /// The connection is closed.
    Disconnect,
    /// The driver is killed.
    Crash,
}

/// A latency, possibly random.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Latency {
    /// Constant.
    Fixed {
        /// Milliseconds.
        ms: f64,
    },
    /// Uniformly distributed.
    Uniform {
        /// Minimum in milliseconds.
        min_ms: f64,
        /// Maximum in milliseconds.
        max_ms: f64,
    },
    /// Exponentially distributed: mostly short, with a long tail.
    Exponential {
        /// Mean, in milliseconds.
        mean_ms: f64,
        /// Upper limit in milliseconds.
        cap_ms: f64,
    },
    /// The first entry whose share exceeds a random number: `[[0.5, 10], [0.99, 100], [1, 2000]]`.
    Quantiles {
        /// Cumulative share of calls and milliseconds, ascending.
        quantiles: Vec<(f64, f64)>,
    },
}

impl Latency {
    /// The latency for a random number in `[0, 1)`.
    pub fn sample(&self, unit: f64) -> Duration {
        let ms = match self {
            Self::Fixed { ms } => *ms,
            Self::Uniform { min_ms, max_ms } => min_ms + (max_ms - min_ms) * unit,
            Self::Exponential { mean_ms, cap_ms } => (-mean_ms * (1.0 - unit).ln()).min(*cap_ms),
            Self::Quantiles { quantiles } => {
                let entry = quantiles.iter().find(|(share, _)| unit < *share);
                entry.or(quantiles.last()).map_or(0.0, |(_, ms)| *ms)
            }
        };
        Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
    }
}

/// A gRPC code by its upper-case name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CodeName(pub tonic::Code);

/// Names in numeric order.
pub const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// Name of a code.
pub fn code_name(code: tonic::Code) -> &'static str {
    usize::try_from(code as i32)
        .ok()
        .and_then(|number| CODES.get(number))
        .unwrap_or(&"UNKNOWN")
}

impl TryFrom<String> for CodeName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let position = CODES.iter().position(|known| *known == name);
        let number = position.and_then(|number| i32::try_from(number).ok());
        let number = number.ok_or_else(|| format!("{name:?} is no gRPC code name"))?;
        Ok(Self(tonic::Code::from_i32(number)))
    }
}

impl From<CodeName> for String {
    fn from(code: CodeName) -> Self {
        code_name(code.0).to_owned()
    }
}

impl Filter {
    fn matches(&self, facts: &Facts) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| match wanted.strip_suffix('*') {
                    Some(start) => value.starts_with(start),
                    None => wanted == value,
                })
        };
        is(&self.method, &facts.method)
            && is(&self.volume, &facts.volume)
            && is(&self.name, &facts.name)
            && is(&self.node, &facts.node)
            && self
                .other_secrets_than
                .as_ref()
                .is_none_or(|wanted| !facts.has_secrets(wanted))
    }
}

/// The current rules, with their counters.
#[derive(Debug, Default)]
pub struct Rules {
    next: u64,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    rule: Rule,
    matched: u64,
    applied: u64,
}

/// A rule with its counters, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    /// The rule.
    pub rule: Rule,
    /// Number of calls that matched.
    pub matched: u64,
    /// Number of calls that it was applied to.
    pub applied: u64,
}

impl Rules {
    /// Adds a rule, or replaces the one with the same ID; returns its ID.
    pub fn add(&mut self, mut rule: Rule) -> String {
        if rule.id.is_empty() {
            self.next += 1;
            rule.id = format!("rule-{}", self.next);
        }
        let id = rule.id.clone();
        self.entries.retain(|entry| entry.rule.id != id);
        self.entries.push(Entry {
            rule,
            matched: 0,
            applied: 0,
        });
        id
    }

    /// Removes a rule; returns whether it existed.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.rule.id != id);
        self.entries.len() != before
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Whether the rule exists.
    pub fn contains(&self, id: &str) -> bool {
        self.entries.iter().any(|entry| entry.rule.id == id)
    }

    /// All rules, in the order in which they are checked.
    pub fn list(&self) -> Vec<Listed> {
        let listed = |entry: &Entry| Listed {
            rule: entry.rule.clone(),
            matched: entry.matched,
            applied: entry.applied,
        };
        self.entries.iter().map(listed).collect()
    }

    /// Counts the call and returns the first rule that applies to it.
    pub fn decide(&mut self, facts: &Facts) -> Option<(String, Action)> {
        let mut chosen = None;
        for entry in &mut self.entries {
            if !entry.rule.filter.matches(facts) {
                continue;
            }
            entry.matched += 1;
            let filter = &entry.rule.filter;
            let Some(number) = entry.matched.checked_sub(filter.skip + 1) else {
                continue;
            };
            let used_up = filter.times.is_some_and(|times| entry.applied >= times);
            let in_step = filter
                .every
                .is_none_or(|every| number.is_multiple_of(every.max(1)));
            if chosen.is_none() && in_step && !used_up {
                entry.applied += 1;
                chosen = Some((entry.rule.id.clone(), entry.rule.action.clone()));
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn facts(method: &str, volume: &str, name: &str) -> Facts {
        Facts {
            method: method.to_owned(),
            volume: volume.to_owned(),
            name: name.to_owned(),
            node: "n1".to_owned(),
            ..Facts::default()
        }
    }

    fn rule(text: serde_json::Value) -> Rule {
        serde_json::from_value(text).unwrap()
    }

    fn applied(rules: &mut Rules, calls: u64) -> Vec<u64> {
        let call = facts("CreateVolume", "", "pvc-1");
        (1..=calls)
            .filter(|_| rules.decide(&call).is_some())
            .collect()
    }

    fn create_with(filter: serde_json::Value) -> Rules {
        let mut rules = Rules::default();
        let fail = serde_json::json!({"outcome": {"fail": {"code": "ABORTED"}}});
        rules.add(rule(serde_json::json!({"match": filter, "action": fail})));
        rules
    }

    #[test]
    fn counters_choose_the_nth_the_first_and_every_so_many_calls() {
        let all = &mut create_with(serde_json::json!({"method": "CreateVolume"}));
        assert_eq!(applied(all, 3), [1, 2, 3]);
        let third = &mut create_with(serde_json::json!({"skip": 2, "times": 1}));
        assert_eq!(applied(third, 5), [3]);
        let first_two = &mut create_with(serde_json::json!({"times": 2}));
        assert_eq!(applied(first_two, 5), [1, 2]);
        let every_third = &mut create_with(serde_json::json!({"every": 3, "skip": 1, "times": 2}));
        assert_eq!(applied(every_third, 9), [2, 5]);
    }

    #[test]
    fn filters_match_method_volume_name_and_node() {
        for (filter, matches) in [
            (serde_json::json!({}), true),
            (serde_json::json!({"method": "DeleteVolume"}), true),
            (serde_json::json!({"method": "CreateVolume"}), false),
            (serde_json::json!({"volume": "v1"}), true),
            (serde_json::json!({"volume": "v2"}), false),
            (serde_json::json!({"name": "pvc-*"}), true),
            (serde_json::json!({"name": "pv-*"}), false),
            (serde_json::json!({"node": "n1", "volume": "v1"}), true),
            (serde_json::json!({"node": "n2", "volume": "v1"}), false),
        ] {
            let mut rules = create_with(filter.clone());
            let found = rules
                .decide(&facts("DeleteVolume", "v1", "pvc-1"))
                .is_some();
            assert_eq!(found, matches, "{filter}");
        }
    }

    #[test]
    fn a_rule_can_insist_on_secrets() {
        let wanted = serde_json::json!({"other_secrets_than": {"password": "right"}});
        let mut rules = create_with(wanted);
        let mut found = |password: Option<&str>| {
            let mut request = crate::plan::testing::create("a", 1);
            let pair = password.map(|text| ("password".to_owned(), text.to_owned()));
            request.secrets = pair.into_iter().collect();
            let facts = super::super::facts::read("CreateVolume", &request.encode_to_vec());
            rules.decide(&facts).is_some()
        };
        assert!(found(None));
        assert!(found(Some("wrong")));
        assert!(!found(Some("right")));
    }

    #[test]
    fn the_first_rule_wins_and_the_others_count() {
        let mut rules = create_with(serde_json::json!({"times": 1}));
        let hang = serde_json::json!({"id": "h", "action": {"outcome": "hang"}});
        assert_eq!(rules.add(rule(hang)), "h");
        let call = facts("CreateVolume", "", "pvc-1");
        assert_eq!(rules.decide(&call).unwrap().0, "rule-1");
        assert_eq!(rules.decide(&call).unwrap().0, "h");
        let counts: Vec<(u64, u64)> = rules
            .list()
            .iter()
            .map(|entry| (entry.matched, entry.applied))
            .collect();
        assert_eq!(counts, [(2, 1), (2, 1)]);
        assert!(rules.remove("h") && !rules.remove("h"));
        assert!(rules.contains("rule-1"));
        rules.clear();
        assert!(rules.decide(&call).is_none());
    }

    #[test]
    fn actions_are_read_as_documented() {
        let action: Action = serde_json::from_value(serde_json::json!({
            "delay": {"min_ms": 10, "max_ms": 20}, "hold": true, "at": "after",
            "outcome": {"fail": {"code": "OUT_OF_RANGE", "message": "too large"}}
        }))
        .unwrap();
        assert_eq!(action.at, At::After);
        let code = CodeName(tonic::Code::OutOfRange);
        assert_eq!(
            action.outcome,
            Outcome::Fail {
                code,
                message: "too large".to_owned()
            }
        );
        for wrong in [
            serde_json::json!({"outcome": {"fail": {"code": "Aborted"}}}),
            serde_json::json!({"outcome": "explode"}),
            serde_json::json!({"deley": {"ms": 1}}),
        ] {
            assert!(serde_json::from_value::<Action>(wrong).is_err());
        }
    }

    #[test]
    fn latencies_follow_their_distribution() {
        let parse = |text: serde_json::Value| serde_json::from_value::<Latency>(text).unwrap();
        let ms = |latency: &Latency, unit: f64| latency.sample(unit).as_millis();
        assert_eq!(ms(&parse(serde_json::json!({"ms": 5})), 0.9), 5);
        let uniform = parse(serde_json::json!({"min_ms": 10, "max_ms": 20}));
        assert_eq!((ms(&uniform, 0.0), ms(&uniform, 0.5)), (10, 15));
        let tail = parse(serde_json::json!({"mean_ms": 10, "cap_ms": 40}));
        assert_eq!(
            (ms(&tail, 0.0), ms(&tail, 0.632_13), ms(&tail, 0.9999)),
            (0, 10, 40)
        );
        let steps = parse(serde_json::json!({"quantiles": [[0.5, 1], [0.9, 10], [1, 100]]}));
        assert_eq!(
            (ms(&steps, 0.4), ms(&steps, 0.5), ms(&steps, 0.95)),
            (1, 10, 100)
        );
    }

    #[test]
    fn every_code_has_its_name() {
        for number in 0..17 {
            let code = tonic::Code::from_i32(number);
            let name = String::from(CodeName(code));
            assert_eq!(CodeName::try_from(name).unwrap().0, code);
        }
        assert!(CodeName::try_from("ok".to_owned()).is_err());
    }
}
