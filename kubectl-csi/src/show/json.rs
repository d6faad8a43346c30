//! The format for programs. Scripts rely on the names of fields and the numbers of causes, not on
//! texts.

use serde_json::{Value, json};

use super::controllers;
use crate::model::Ref;
use crate::plan::{Finding, Overview, Verdict, title};
use sidecar::redact::{plain, told, words};

/// Version of the format.
pub(super) const VERSION: u32 = 1;

pub(super) fn object(of: &Ref) -> Value {
    json!({"kind": of.kind.name(), "namespace": plain(&of.namespace), "name": plain(&of.name)})
}

fn cause(finding: &Finding) -> Value {
    let remedies = finding.remedies.iter().map(|one| {
        json!({
            "who": one.who.word(),
            "text": plain(&one.text),
            "command": one.command.as_deref().map(plain),
            "risk": one.risk.as_deref().map(plain),
        })
    });
    json!({
        "id": finding.id,
        "title": title(finding.id),
        "certainty": finding.certainty.word(),
        "object": object(&finding.object),
        "text": told(&finding.text),
        "quoted": finding.quoted.as_deref().map(words),
        "remedies": remedies.collect::<Vec<_>>(),
    })
}

pub(super) fn printed(value: &Value) -> String {
    format!("{value:#}\n")
}

pub(super) fn verdict(verdict: &Verdict) -> String {
    let path = verdict.path.iter().map(|one| {
        json!({
            "kind": one.object.kind.name(),
            "namespace": plain(&one.object.namespace),
            "name": plain(&one.object.name),
            "says": told(&one.says),
            "cause": one.cause,
        })
    });
    let unseen = verdict
        .unseen
        .iter()
        .map(|(what, why)| json!({"what": plain(what), "why": words(why)}));
    printed(&json!({
        "version": VERSION,
        "subject": object(&verdict.subject),
        "state": verdict.state.word(),
        "since": verdict.since.map(|since| since.to_string()),
        "now": verdict.now.to_string(),
        "causes": verdict.causes.iter().map(cause).collect::<Vec<_>>(),
        "lastWords": verdict.last_words.as_deref().map(words),
        "path": path.collect::<Vec<_>>(),
        "unseen": unseen.collect::<Vec<_>>(),
        "controllers": controllers::json(&verdict.controllers),
    }))
}

pub(super) fn overview(overview: &Overview) -> String {
    let causes = overview.found.iter().map(|found| {
        json!({
            "id": found.id,
            "title": found.id.map(title),
            "state": if found.waits { "waits" } else { "stuck" },
            "count": found.subjects.len(),
            "subjects": found.subjects.iter().map(object).collect::<Vec<_>>(),
            "objects": found.objects.iter().map(object).collect::<Vec<_>>(),
        })
    });
    let unseen = overview
        .unseen
        .iter()
        .map(|(what, why)| json!({"what": plain(what), "why": words(why)}));
    printed(&json!({
        "version": VERSION,
        "state": overview.state().word(),
        "causes": causes.collect::<Vec<_>>(),
        "unseen": unseen.collect::<Vec<_>>(),
    }))
}
