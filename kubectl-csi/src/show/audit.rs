//! The result of an audit.
//!
//! Only this output shows handles of volumes: administrators need them to find a volume in the storage.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::human::{Ink, Style, unseen, wrapped};
use super::json::{VERSION, object, printed};
use crate::plan::{Audit, Difference, DifferenceKind, Note, NoteKind, listed};
use sidecar::redact::{plain, words};

/// Rows after which lists for people are cut; `-o json` and `-o name` have all.
const ROWS: usize = 50;

/// `10Gi` if the size is a whole number of a unit; else bytes.
fn size(bytes: i64) -> String {
    for (unit, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if bytes >= 1 << shift && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn row(one: &Difference) -> String {
    let mut parts = vec![plain(&one.handle)];
    parts.extend(one.object.as_ref().map(|object| plain(&object.to_string())));
    parts.extend(
        one.node
            .as_ref()
            .map(|node| format!("node {}", plain(node))),
    );
    parts.extend(match (one.bytes, one.expected) {
        (Some(bytes), Some(expected)) => Some(format!(
            "{} in the storage, {} in the PersistentVolume",
            size(bytes),
            size(expected)
        )),
        (Some(bytes), None) => Some(size(bytes)),
        (None, _) => None,
    });
    parts.join("  ")
}

/// A section: heading, rows, advice.
fn part(heading: &str, advice: &str, rows: &[String], style: Style, text: &mut String) {
    text.push_str(&format!("\n{}\n", style.ink(Ink::Bold, heading)));
    for row in rows.iter().take(ROWS) {
        text.push_str(&format!("  {row}\n"));
    }
    if let Some(more) = rows.len().checked_sub(ROWS).filter(|more| *more > 0) {
        text.push_str(&format!("  … and {more} more: -o json has all\n"));
    }
    text.push_str(&format!("{}\n", wrapped(advice, style.width, 0)));
}

fn compared(audit: &Audit) -> String {
    let count = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    };
    let volumes = audit.volumes.map(|all| count(all, "volume"));
    let snapshots = audit.snapshots.map(|all| count(all, "snapshot"));
    let all: Vec<_> = volumes.into_iter().chain(snapshots).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(", which lists {}", listed(&all)),
    }
}

pub(super) fn human(audit: &Audit, style: Style) -> String {
    let (driver, lists) = (plain(&audit.driver), compared(audit));
    let heading = match (&audit.refused, audit.differences.len()) {
        (Some(why), _) => format!("{driver} cannot be audited: {}", words(why)),
        (None, 0) if !audit.undecided.is_empty() => {
            format!("Nothing is known to differ between the cluster and {driver}{lists}")
        }
        (None, 0) => format!("Nothing differs between the cluster and {driver}{lists}"),
        (None, 1) => format!("1 difference between the cluster and {driver}{lists}"),
        (None, all) => format!("{all} differences between the cluster and {driver}{lists}"),
    };
    let ink = match audit.code() {
        0 => Ink::Green,
        _ => Ink::Bold,
    };
    let mut text = format!("{}\n", style.ink(ink, &wrapped(&heading, style.width, 0)));
    for kind in DifferenceKind::ALL {
        let own = audit.differences.iter().filter(|one| one.kind == kind);
        let rows: Vec<_> = own.clone().map(row).collect();
        if rows.is_empty() {
            continue;
        }
        let bytes = own
            .clone()
            .filter_map(|one| one.bytes.filter(|_| one.expected.is_none()));
        let bytes: i64 = bytes.fold(0, i64::saturating_add);
        let sum = match bytes {
            0 => String::new(),
            bytes => format!(", {} together", size(bytes)),
        };
        let heading = format!("{}: {}{sum}", kind.title(), rows.len());
        part(&heading, kind.advice(), &rows, style, &mut text);
    }
    undecided(audit, style, &mut text);
    notes(audit, style, &mut text);
    if audit.others > 0 {
        text.push_str(&format!(
            "\n{} more with other handles than those of --owned-by are not listed\n",
            audit.others
        ));
    }
    if !audit.unseen.is_empty() {
        text.push('\n');
        unseen(audit.unseen.iter(), style, &mut text);
    }
    text
}

/// The undecided differences, one section for each set of reasons: one reason mostly applies to all of them.
fn undecided(audit: &Audit, style: Style, text: &mut String) {
    let mut parts: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for one in &audit.undecided {
        parts
            .entry((one.kind, &one.why))
            .or_default()
            .push(row(one));
    }
    for ((kind, why), rows) in parts {
        let heading = format!(
            "Cannot tell whether these are {}: {}",
            kind.undecided(),
            rows.len()
        );
        let why: Vec<String> = why.iter().map(|why| words(why)).collect();
        let advice = format!("Why: {}. Keep them.", why.join("; "));
        part(&heading, &advice, &rows, style, text);
    }
}

fn notes(audit: &Audit, style: Style, text: &mut String) {
    for kind in NoteKind::ALL {
        let own = audit.notes.iter().filter(|note| note.kind == kind);
        let rows = own.map(|note| {
            let says = note
                .detail
                .as_ref()
                .map(|says| format!("  {}", plain(says)));
            let object = plain(&note.object.to_string());
            format!("{object}{}", says.unwrap_or_default())
        });
        let rows: Vec<_> = rows.collect();
        if !rows.is_empty() {
            let heading = format!("{}: {}", kind.title(), rows.len());
            part(&heading, kind.advice(), &rows, style, text);
        }
    }
}

fn note(note: &Note) -> Value {
    json!({
        "kind": note.kind.word(),
        "object": object(&note.object),
        "says": note.detail.as_deref().map(plain),
    })
}

pub(super) fn json(audit: &Audit) -> String {
    let difference = |one: &Difference| {
        json!({
            "what": one.kind.word(),
            "handle": &one.handle,
            "object": one.object.as_ref().map(object),
            "node": one.node.as_deref().map(plain),
            "bytes": one.bytes,
            "expectedBytes": one.expected,
            "why": one.why.iter().map(|why| words(why)).collect::<Vec<_>>(),
        })
    };
    let unseen = audit
        .unseen
        .iter()
        .map(|(what, why)| json!({"what": plain(what), "why": words(why)}));
    printed(&json!({
        "version": VERSION,
        "driver": plain(&audit.driver),
        "volumes": audit.volumes,
        "snapshots": audit.snapshots,
        "refused": audit.refused.as_deref().map(words),
        "differences": audit.differences.iter().map(difference).collect::<Vec<_>>(),
        "undecided": audit.undecided.iter().map(difference).collect::<Vec<_>>(),
        "otherHandles": audit.others,
        "notes": audit.notes.iter().map(note).collect::<Vec<_>>(),
        "unseen": unseen.collect::<Vec<_>>(),
    }))
}

/// One difference a line: its kind and the handle, for a published volume also the node. Undecided ones are left out:
/// scripts read this.
pub(super) fn handles(audit: &Audit) -> String {
    let lines = audit.differences.iter();
    let lines = lines.map(|one| {
        let node = one
            .node
            .as_ref()
            .filter(|_| one.kind == DifferenceKind::Published);
        let node = node.map(|node| format!(" {}", plain(node)));
        let (word, handle) = (one.kind.word(), plain(&one.handle));
        format!("{word} {handle}{}\n", node.unwrap_or_default())
    });
    lines.collect()
}
