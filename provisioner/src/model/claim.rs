//! PersistentVolumeClaim: a user's request for a volume.
//!
//! A claim is kept only while something is due for it: of the 50,000 bound claims of a cluster the process keeps none.

use jiff::Timestamp;

use super::{List, Pairs, Quantity, Text, VolumeMode};
use crate::keys::{
    ALPHA_SELECTED_NODE, BETA_STORAGE_CLASS, BETA_STORAGE_PROVISIONER, CLONE_FINALIZER,
    SELECTED_NODE, STORAGE_PROVISIONER,
};

/// A `core/v1` PersistentVolumeClaim, as far as the provisioner reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Text,
    /// `metadata.resourceVersion`, 0 if it is no number.
    pub version: u64,
    /// `metadata.creationTimestamp`, a whole second.
    pub created: Option<Timestamp>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `metadata.deletionTimestamp`, a whole second.
    pub deleted: Option<Timestamp>,
    /// `metadata.finalizers`, in order.
    pub finalizers: List,
    /// `metadata.annotations`, all of them: templates may name any.
    pub annotations: Pairs,
    /// `spec.storageClassName`.
    pub class: Option<Text>,
    /// `spec.volumeName`, empty where unset.
    pub volume: Text,
    /// `spec.accessModes`, as written.
    pub access_modes: List,
    /// `spec.volumeMode`.
    pub mode: Option<VolumeMode>,
    /// Whether `spec.selector` is set, even if it is empty.
    pub selector: bool,
    /// `spec.resources.requests.storage`.
    pub request: Option<Quantity>,
    /// `spec.dataSource`; its namespace is never set.
    pub data_source: Option<DataSource>,
    /// `spec.dataSourceRef`.
    pub data_source_ref: Option<DataSource>,
    /// `spec.volumeAttributesClassName`.
    pub attributes_class: Option<Text>,
    /// `status.phase`.
    pub phase: ClaimPhase,
}

/// `spec.dataSource` or `spec.dataSourceRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataSource {
    /// `apiGroup`; absent is the core group.
    pub group: Option<Text>,
    /// `kind`.
    pub kind: Text,
    /// `name`.
    pub name: Text,
    /// `namespace`; absent is the claim's own.
    pub namespace: Option<Text>,
}

/// `status.phase` of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClaimPhase {
    /// Empty: no controller has set it yet.
    #[default]
    Unset,
    /// `Pending`
    Pending,
    /// `Bound`
    Bound,
    /// `Lost`
    Lost,
    /// Any other value.
    Other,
}

impl ClaimPhase {
    /// The phase that the API spells `text`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unset,
            "Pending" => Self::Pending,
            "Bound" => Self::Bound,
            "Lost" => Self::Lost,
            _ => Self::Other,
        }
    }

    /// Whether the claim may still get its volume: `Pending`, or not set yet.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, Self::Unset | Self::Pending)
    }
}

impl Claim {
    /// `namespace/name`: the key under which the claim is cached and queued.
    #[must_use]
    pub fn key(&self) -> Text {
        format!("{}/{}", self.namespace, self.name).into()
    }

    /// Whether `finalizer` is among the object's finalizers.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|held| &**held == finalizer)
    }

    /// Whether anything can be due for the claim, so that the cache keeps it: it waits for its volume, one of our
    /// finalizers has to be removed, or it may delay the removal of a source's finalizer.
    #[must_use]
    pub fn is_actionable(&self) -> bool {
        self.volume.is_empty()
            || (self.deleting && self.has_finalizer(CLONE_FINALIZER))
            || (self.phase.is_open() && self.has_source())
    }

    /// Whether the claim has a data source.
    #[must_use]
    pub fn has_source(&self) -> bool {
        self.data_source.is_some() || self.data_source_ref.is_some()
    }

    /// The class to provision with: the beta annotation, else the field, else none (empty).
    #[must_use]
    pub fn class_name(&self) -> &str {
        let annotated = self.annotations.get(BETA_STORAGE_CLASS);
        annotated.or(self.class.as_deref()).unwrap_or_default()
    }

    /// The provisioner that the control plane chose: the older annotation counts only where the
    /// newer one is absent.
    #[must_use]
    pub fn provisioner(&self) -> Option<&str> {
        let newer = self.annotations.get(STORAGE_PROVISIONER);
        newer.or_else(|| self.annotations.get(BETA_STORAGE_PROVISIONER))
    }

    /// The node that the scheduler chose, empty where there is none.
    #[must_use]
    pub fn selected_node(&self) -> &str {
        let newer = self.annotations.get(SELECTED_NODE);
        let chosen = newer.or_else(|| self.annotations.get(ALPHA_SELECTED_NODE));
        chosen.unwrap_or_default()
    }

    /// The metrics' label `source`: kind of `spec.dataSource`.
    #[must_use]
    pub fn source_kind(&self) -> &str {
        self.data_source.as_ref().map_or("", |source| &source.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> List {
        items.iter().map(|item| Text::from(*item)).collect()
    }

    #[test]
    fn claims_that_call_for_nothing_are_not_kept() {
        let bound = || Claim {
            volume: "pv".into(),
            phase: ClaimPhase::Bound,
            ..Claim::default()
        };
        let source = || Some(DataSource::default());
        let finalizer = |finalizer| Claim {
            finalizers: list(&[finalizer]),
            ..bound()
        };
        let rows = [
            ("open", Claim::default(), true),
            ("bound", bound(), false),
            (
                "source, deleting",
                Claim {
                    deleting: true,
                    ..finalizer(CLONE_FINALIZER)
                },
                true,
            ),
            ("source", finalizer(CLONE_FINALIZER), false),
            (
                "clone, volume known, not bound yet",
                Claim {
                    phase: ClaimPhase::Pending,
                    data_source: source(),
                    ..bound()
                },
                true,
            ),
            (
                "phase unset",
                Claim {
                    phase: ClaimPhase::Unset,
                    data_source_ref: source(),
                    ..bound()
                },
                true,
            ),
            (
                "clone, bound",
                Claim {
                    data_source: source(),
                    ..bound()
                },
                false,
            ),
            (
                "pre-bound",
                Claim {
                    phase: ClaimPhase::Pending,
                    ..bound()
                },
                false,
            ),
        ];
        for (row, claim, kept) in rows {
            assert_eq!(claim.is_actionable(), kept, "{row}");
        }
    }

    #[test]
    fn rows_33_34_35_43_49_annotations_in_their_order() {
        let with = |pairs: &[(&str, &str)]| Claim {
            class: Some("sc1".into()),
            annotations: pairs.iter().copied().collect(),
            ..Claim::default()
        };
        assert_eq!(with(&[]).provisioner(), None);
        assert_eq!(
            with(&[(BETA_STORAGE_PROVISIONER, "b")]).provisioner(),
            Some("b")
        );
        let both = with(&[(BETA_STORAGE_PROVISIONER, "b"), (STORAGE_PROVISIONER, "a")]);
        assert_eq!(both.provisioner(), Some("a"));
        let empty = with(&[(BETA_STORAGE_PROVISIONER, "b"), (STORAGE_PROVISIONER, "")]);
        assert_eq!(empty.provisioner(), Some(""));
        assert_eq!(with(&[]).class_name(), "sc1");
        assert_eq!(with(&[(BETA_STORAGE_CLASS, "sc2")]).class_name(), "sc2");
        assert_eq!(with(&[(BETA_STORAGE_CLASS, "")]).class_name(), "");
        assert_eq!(with(&[(ALPHA_SELECTED_NODE, "n1")]).selected_node(), "n1");
        let both = with(&[(ALPHA_SELECTED_NODE, "n1"), (SELECTED_NODE, "n2")]);
        assert_eq!(both.selected_node(), "n2");
        assert_eq!(with(&[]).selected_node(), "");
    }
}
