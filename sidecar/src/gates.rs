//! Feature gates: the known ones, their values, and the rules for setting them.
//!
//! Pure, and separate from the flags because the values are checked after the command line is
//! parsed and logging is set up, with an exit code of their own.

mod api_server;
pub mod retired;

use std::collections::BTreeMap;

pub use api_server::{API_SERVER, API_SERVER_0_36};
pub use retired::Retired;

/// Maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for; follows `AllAlpha`.
    Alpha,
    /// Follows `AllBeta`.
    Beta,
    /// Generally available: setting it logs a warning.
    Ga,
    /// Deprecated: setting it logs a warning.
    Deprecated,
}

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Name, as in Kubernetes' feature lists.
    pub name: &'static str,
    /// The value without `--feature-gates`.
    pub default: bool,
    /// Maturity of the feature.
    pub stage: Stage,
    /// The value cannot be changed.
    pub locked: bool,
}

impl Gate {
    /// A gate that is not locked.
    pub const fn new(name: &'static str, default: bool, stage: Stage) -> Self {
        Self {
            name,
            default,
            stage,
            locked: false,
        }
    }
}

/// Why gates cannot be set as requested; the wording is Kubernetes'.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No gate of this name exists.
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    /// The gate exists and its value is fixed.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {}", !value)]
    Locked {
        /// The name of the gate.
        name: String,
        /// The requested value.
        value: bool,
    },
}

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// The gates of one program and their values.
#[derive(Clone, Debug)]
pub struct Gates {
    known: &'static [Gate],
    ignored: &'static [&'static [Gate]],
    retired: &'static Retired,
    values: BTreeMap<&'static str, bool>,
    explicit: Vec<&'static str>,
}

impl Gates {
    /// All gates at their defaults.
    pub fn new(known: &'static [Gate]) -> Self {
        Self {
            known,
            ignored: &[],
            retired: &retired::NONE,
            values: known.iter().map(|gate| (gate.name, gate.default)).collect(),
            explicit: Vec::new(),
        }
    }

    /// Also accepts `ignored`, each with a warning that it has no effect.
    #[must_use]
    pub fn ignoring(mut self, ignored: &'static [&'static [Gate]]) -> Self {
        self.ignored = ignored;
        self
    }

    /// Also accepts gates that upstream's program removed, each with a warning.
    #[must_use]
    pub fn retired(mut self, retired: &'static Retired) -> Self {
        self.retired = retired;
        self
    }

    /// Sets gates in the given order, later entries winning, and returns the warnings to log.
    ///
    /// # Errors
    /// The first gate that is unknown or locked; no gate is set then.
    pub fn set(&mut self, wanted: &[(String, bool)]) -> Result<Vec<String>, GateError> {
        let mut last: BTreeMap<&str, bool> = BTreeMap::new();
        last.extend(wanted.iter().map(|(name, value)| (name.as_str(), *value)));
        for (name, value) in &last {
            self.check(name, *value)?;
        }
        let mut warnings = Vec::new();
        for gate in self.known {
            let Some(value) = last.get(gate.name).copied() else {
                self.follow_group(gate, &last);
                continue;
            };
            self.values.insert(gate.name, value);
            self.explicit.push(gate.name);
            let kind = match gate.stage {
                Stage::Ga => "GA",
                Stage::Deprecated => "deprecated",
                Stage::Alpha | Stage::Beta => continue,
            };
            warnings.push(format!(
                "Setting {kind} feature gate {}={value}. It will be removed in a future release.",
                gate.name
            ));
        }
        for gate in self.ignored.iter().copied().flatten() {
            if let Some(value) = last.get(gate.name) {
                warnings.push(format!(
                    "Feature gate {}={value} belongs to the API server and has no effect here.",
                    gate.name
                ));
            }
        }
        for (name, value) in &last {
            if let Some(release) = self.retired.release(name) {
                warnings.push(format!(
                    "Feature gate {name}={value} was retired in {} {release} and has no effect",
                    self.retired.program
                ));
            }
        }
        Ok(warnings)
    }

    fn check(&self, name: &str, value: bool) -> Result<(), GateError> {
        if name == ALL_ALPHA || name == ALL_BETA || self.retired.release(name).is_some() {
            return Ok(());
        }
        let mut all = self
            .known
            .iter()
            .chain(self.ignored.iter().copied().flatten());
        let gate = all.find(|gate| gate.name == name);
        let gate = gate.ok_or_else(|| GateError::Unknown(name.to_owned()))?;
        if gate.locked && gate.default != value {
            return Err(GateError::Locked {
                name: name.to_owned(),
                value,
            });
        }
        Ok(())
    }

    fn follow_group(&mut self, gate: &Gate, wanted: &BTreeMap<&str, bool>) {
        let group = match gate.stage {
            Stage::Alpha => ALL_ALPHA,
            Stage::Beta => ALL_BETA,
            Stage::Ga | Stage::Deprecated => return,
        };
        if let Some(value) = wanted.get(group)
            && !gate.locked
            && !self.explicit.contains(&gate.name)
        {
            self.values.insert(gate.name, *value);
        }
    }

    /// Whether the feature is on; a gate missing from the table is off.
    pub fn enabled(&self, name: &str) -> bool {
        debug_assert!(
            self.values.contains_key(name),
            "{name} is not in the table of gates"
        );
        self.values.get(name).copied().unwrap_or(false)
    }

    /// The `known` gates that `wanted` changes from their default, with their new values.
    pub fn changed(known: &'static [Gate], wanted: &[(String, bool)]) -> Vec<(&'static str, bool)> {
        let mut gates = Self::new(known);
        let is_known = |name: &str| known.iter().any(|gate| gate.name == name);
        let mut wanted = wanted.to_vec();
        wanted.retain(|(name, _)| is_known(name) || name == ALL_ALPHA || name == ALL_BETA);
        // A refused list has ended the process already.
        let _ = gates.set(&wanted);
        let changed = known
            .iter()
            .map(|gate| (gate.name, gate.default, gates.enabled(gate.name)));
        let changed = changed.filter(|(_, default, value)| default != value);
        changed.map(|(name, _, value)| (name, value)).collect()
    }

    /// Whether the command line set this gate itself, not through a group.
    pub fn is_explicit(&self, name: &str) -> bool {
        self.explicit.contains(&name)
    }

    /// One line per gate for the help text, sorted by name, the two groups first.
    pub fn describe(known: &[Gate]) -> Vec<String> {
        let mut lines = vec![
            format!("{ALL_ALPHA}=true|false (ALPHA - default=false)"),
            format!("{ALL_BETA}=true|false (BETA - default=false)"),
        ];
        let mut gates: Vec<_> = known.iter().collect();
        gates.sort_by_key(|gate| gate.name);
        for gate in gates {
            let stage = match gate.stage {
                Stage::Alpha => "ALPHA - ",
                Stage::Beta => "BETA - ",
                Stage::Deprecated => "DEPRECATED - ",
                Stage::Ga => "",
            };
            lines.push(format!(
                "{}=true|false ({stage}default={})",
                gate.name, gate.default
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Gate] = &[
        Gate {
            name: "ReleaseLeaderElectionOnExit",
            default: false,
            stage: Stage::Alpha,
            locked: false,
        },
        Gate {
            name: "MutableCSINodeAllocatableCount",
            default: true,
            stage: Stage::Ga,
            locked: false,
        },
        Gate {
            name: "Fixed",
            default: true,
            stage: Stage::Beta,
            locked: true,
        },
    ];

    fn set(pairs: &[(&str, bool)]) -> Result<(Gates, Vec<String>), GateError> {
        let mut gates = Gates::new(KNOWN);
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        let warnings = gates.set(&pairs)?;
        Ok((gates, warnings))
    }

    #[test]
    fn defaults() {
        let (gates, warnings) = set(&[]).unwrap();
        assert!(!gates.enabled("ReleaseLeaderElectionOnExit"));
        assert!(gates.enabled("MutableCSINodeAllocatableCount"));
        assert!(warnings.is_empty());
    }

    #[test]
    fn a_ga_gate_is_honoured_with_a_warning() {
        let (gates, warnings) = set(&[("MutableCSINodeAllocatableCount", false)]).unwrap();
        assert!(!gates.enabled("MutableCSINodeAllocatableCount"));
        assert!(gates.is_explicit("MutableCSINodeAllocatableCount"));
        assert_eq!(
            warnings,
            [
                "Setting GA feature gate MutableCSINodeAllocatableCount=false. \
              It will be removed in a future release."
            ]
        );
    }

    #[test]
    fn unknown_and_locked() {
        let error = set(&[("A", true)]).unwrap_err();
        assert_eq!(error.to_string(), "unrecognized feature gate: A");
        let error = set(&[("Fixed", false)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot set feature gate Fixed to false, feature is locked to true"
        );
        assert!(set(&[("Fixed", true)]).is_ok());
    }

    #[test]
    fn all_alpha_switches_what_is_not_named_itself() {
        let (gates, _) = set(&[("AllAlpha", true)]).unwrap();
        assert!(gates.enabled("ReleaseLeaderElectionOnExit"));
        assert!(!gates.is_explicit("ReleaseLeaderElectionOnExit"));
        let named = [("ReleaseLeaderElectionOnExit", false), ("AllAlpha", true)];
        assert!(
            !set(&named)
                .unwrap()
                .0
                .enabled("ReleaseLeaderElectionOnExit")
        );
        let (gates, _) = set(&[("AllBeta", false)]).unwrap();
        assert!(
            gates.enabled("Fixed"),
            "a locked gate does not follow its group"
        );
    }

    #[test]
    fn gates_of_the_api_server_are_accepted_as_far_as_it_accepts_them() {
        let set_of = |library, name: &str, value| {
            Gates::new(KNOWN)
                .ignoring(library)
                .set(&[(name.to_owned(), value)])
        };
        let set = |name: &str, value| set_of(API_SERVER_0_36, name, value);
        assert_eq!(
            set("WatchList", false).unwrap(),
            ["Feature gate WatchList=false belongs to the API server and has no effect here."]
        );
        for (name, value) in [("APIServerTracing", true), ("BtreeWatchCache", true)] {
            assert!(set(name, value).is_ok(), "{name}");
            let error = set(name, !value).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "cannot set feature gate {name} to {}, feature is locked to {value}",
                    !value
                )
            );
        }
        // Locked by the current library, not by the earlier one that released programs linked.
        for value in [true, false] {
            assert!(set("SeparateCacheWatchRPC", value).is_ok());
        }
        assert!(set("ContextualLogging", true).is_err());
        assert_eq!(set("AllBeta", true), Ok(Vec::new()));
        for library in [API_SERVER, API_SERVER_0_36] {
            for table in library {
                assert!(table.iter().map(|gate| gate.name).is_sorted());
            }
            let mut names = library.iter().copied().flatten().map(|gate| gate.name);
            assert!(names.clone().count() > 40);
            assert!(names.all(|name| KNOWN.iter().all(|gate| gate.name != name)));
        }
    }

    #[test]
    fn n_60_gates_of_the_library_s_version_0_37() {
        let set = |program: &'static Retired, library, name: &str| {
            let gates = Gates::new(KNOWN).ignoring(library).retired(program);
            let mut gates = gates;
            gates.set(&[(name.to_owned(), true)])
        };
        for (program, release) in [
            (&retired::ATTACHER, "csi-attacher v4.13.0"),
            (&retired::RESIZER, "csi-resizer v2.3.0"),
            (&retired::SNAPSHOTTER, "csi-snapshotter v8.7.0"),
            (&retired::SNAPSHOT_CONTROLLER, "snapshot-controller v8.7.0"),
        ] {
            let gone = set(program, API_SERVER, "BtreeWatchCache").unwrap();
            let warning = format!(
                "Feature gate BtreeWatchCache=true was retired in {release} and has no effect"
            );
            assert_eq!(gone, [warning]);
            assert_eq!(
                set(program, API_SERVER, "EtcdRangeStream").unwrap().len(),
                1
            );
        }
        let provisioner = |name| set(&retired::PROVISIONER, API_SERVER_0_36, name);
        let known = provisioner("BtreeWatchCache").unwrap();
        assert!(known[0].contains("belongs to the API server"), "{known:?}");
        let unknown = provisioner("EtcdRangeStream").unwrap_err();
        assert_eq!(
            unknown,
            GateError::Unknown("EtcdRangeStream".to_owned()),
            "N-11"
        );
    }

    #[test]
    fn a_retired_gate_has_no_effect_and_one_warning_that_names_the_release() {
        for value in [true, false] {
            let mut gates = Gates::new(KNOWN).retired(&retired::PROVISIONER);
            let wanted = ("HonorPVReclaimPolicy".to_owned(), value);
            let warnings = gates.set(&[wanted.clone(), wanted]);
            assert_eq!(
                warnings.unwrap(),
                [format!(
                    "Feature gate HonorPVReclaimPolicy={value} was retired in csi-provisioner v6.2.0 \
                     and has no effect"
                )]
            );
        }
        // Another program had this gate.
        assert!(set(&[("HonorPVReclaimPolicy", true)]).is_err());
    }

    #[test]
    fn no_gate_is_both_known_and_retired() {
        for (table, library) in [
            (&retired::ATTACHER, API_SERVER),
            (&retired::PROVISIONER, API_SERVER_0_36),
            (&retired::RESIZER, API_SERVER),
            (&retired::SNAPSHOTTER, API_SERVER),
            (&retired::SNAPSHOT_CONTROLLER, API_SERVER),
        ] {
            let mut known = library.iter().copied().flatten().chain(KNOWN);
            let gone = |gate: &&Gate| table.release(gate.name).is_some();
            assert_eq!(known.find(gone), None, "{}", table.program);
        }
    }

    #[test]
    fn later_entries_win() {
        let name = "ReleaseLeaderElectionOnExit";
        assert!(!set(&[(name, true), (name, false)]).unwrap().0.enabled(name));
    }

    #[test]
    fn description_for_the_help_text() {
        assert_eq!(
            Gates::describe(KNOWN),
            [
                "AllAlpha=true|false (ALPHA - default=false)",
                "AllBeta=true|false (BETA - default=false)",
                "Fixed=true|false (BETA - default=true)",
                "MutableCSINodeAllocatableCount=true|false (default=true)",
                "ReleaseLeaderElectionOnExit=true|false (ALPHA - default=false)",
            ]
        );
    }
}
