//! The requisite and the accessible topology of a snapshot (gate `VolumeSnapshotTopology`, CSI 1.13).
//!
//! The snapshot-controller copies the class's allowed topologies into the content, so that every
//! repetition of a call has the same requirement. The snapshotter writes the driver's accessible
//! topology next to it before the snapshot becomes ready: a restore must not miss it.

use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::{Topology, TopologyRequirement};
use serde::Deserialize;

use super::View;
use super::answer::Report;
use super::request::Announcement;
use crate::model::{Content, Text};

/// Limit of requested topologies.
const MOST: usize = 256;

/// `TopologySelectorTerm`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Term {
    match_label_expressions: Vec<Expression>,
}

#[derive(Deserialize)]
struct Expression {
    key: String,
    values: Vec<String>,
}

type Segments = BTreeMap<String, String>;

/// The content's topology requirement, whether or not the driver supports it; `None` without the gate.
///
/// # Errors
/// Why the annotation does not parse.
pub(super) fn wished(view: &View<'_>) -> Result<Option<TopologyRequirement>, String> {
    let allowed = allowed(view.content).filter(|_| view.settings.topology);
    let Some(allowed) = allowed else {
        return Ok(None);
    };
    let topologies = expanded(allowed)?.into_iter();
    let requisite: Vec<Topology> = topologies.map(|segments| Topology { segments }).collect();
    Ok((!requisite.is_empty()).then(|| TopologyRequirement {
        preferred: requisite.clone(),
        requisite,
    }))
}

fn allowed(content: &Content) -> Option<&Text> {
    content.topology.as_ref()?.allowed.as_ref()
}

/// One topology for each combination of values, sorted.
fn expanded(text: &str) -> Result<BTreeSet<Segments>, String> {
    let terms: Vec<Term> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut all = BTreeSet::new();
    for term in terms {
        if term.match_label_expressions.is_empty() {
            return Err("a term without matchLabelExpressions selects nothing".to_owned());
        }
        let mut combined = vec![Segments::new()];
        for Expression { key, values } in term.match_label_expressions {
            if key.is_empty() || values.is_empty() {
                return Err("an expression needs a key and values".to_owned());
            }
            if combined.iter().any(|segments| segments.contains_key(&key)) {
                return Err(format!("key {key:?} is there twice in one term"));
            }
            if combined.len().saturating_mul(values.len()) > MOST {
                return Err(format!("it stands for more than {MOST} topologies"));
            }
            let with = |segments: &Segments, value: &String| {
                let mut segments = segments.clone();
                segments.insert(key.clone(), value.clone());
                segments
            };
            let next = combined.iter().flat_map(|segments| {
                let with = &with;
                values.iter().map(move |value| with(segments, value))
            });
            combined = next.collect();
        }
        all.extend(combined);
        if all.len() > MOST {
            return Err(format!("it stands for more than {MOST} topologies"));
        }
    }
    Ok(all)
}

/// The event if the driver does not support topologies of snapshots.
pub(super) fn ignored(view: &View<'_>) -> Announcement {
    Announcement {
        reason: "SnapshotTopologyIgnored",
        message: format!(
            "CSI driver {} does not announce SNAPSHOT_ACCESSIBILITY_CONSTRAINTS: the snapshot is taken \
             wherever the driver takes it",
            view.driver.name
        )
        .into(),
    }
}

/// The accessible topology that still has to be written, before the snapshot becomes ready.
pub(super) fn news<'a>(view: &View<'_>, report: &'a Report) -> Option<&'a Text> {
    let topology = report.topology.as_ref()?;
    let known = view.content.topology.as_ref();
    let known = known.and_then(|known| known.accessible.as_ref());
    (view.settings.topology && !view.content.is_ready() && known != Some(topology))
        .then_some(topology)
}

/// The accessible topology in the format of the annotation; `None` means everywhere.
pub(super) fn written(topologies: Vec<Topology>) -> Option<Text> {
    let all: BTreeSet<Segments> = { topologies.into_iter() }
        .map(|topology| topology.segments)
        .collect();
    if all.is_empty() {
        return None;
    }
    serde_json::to_string(&all).ok().map(Text::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_114_s_117_what_an_annotation_stands_for() {
        let term = |expressions: &str| format!(r#"{{"matchLabelExpressions":[{expressions}]}}"#);
        let zone = |values: &str| format!(r#"{{"key":"zone","values":[{values}]}}"#);
        let rack = r#"{"key":"rack","values":["1","2"]}"#;
        let many: Vec<String> = (0..257).map(|n| format!("\"{n}\"")).collect();
        let rows = [
            ("S-114", term(&zone(r#""b","a""#)), Ok("a,b")),
            (
                "7.2, product",
                term(&format!("{},{rack}", zone(r#""a","b""#))),
                Ok("1a,1b,2a,2b"),
            ),
            (
                "7.2, several terms",
                format!("{},{}", term(&zone("\"b\"")), term(&zone(r#""a","b""#))),
                Ok("a,b"),
            ),
            ("7.2, none", String::new(), Ok("")),
            ("S-117, no terms", "1".to_owned(), Err("")),
            (
                "S-117, empty term",
                term(""),
                Err("a term without matchLabelExpressions selects nothing"),
            ),
            (
                "S-117, no values",
                term(&zone("")),
                Err("an expression needs a key and values"),
            ),
            (
                "S-117, a key twice",
                term(&format!("{},{}", zone("\"a\""), zone("\"b\""))),
                Err("key \"zone\" is there twice in one term"),
            ),
            (
                "7.2, 257",
                term(&zone(&many.join(","))),
                Err("it stands for more than 256 topologies"),
            ),
        ];
        for (row, terms, expected) in rows {
            let found = expanded(&format!("[{terms}]"));
            match expected {
                Ok(expected) => {
                    let texts: Vec<String> = { found.unwrap().into_iter() }
                        .map(|segments| segments.into_values().collect())
                        .collect();
                    assert_eq!(texts.join(","), expected, "{row}");
                }
                Err(expected) => {
                    let text = found.unwrap_err();
                    assert!(text.contains(expected), "{row}: {text}");
                }
            }
        }
        assert!(expanded("zone in (a, b)").is_err(), "S-117, no JSON");
    }
}
