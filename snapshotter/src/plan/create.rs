//! The script that creates a snapshot, and repeats the same request until it is ready.
//!
//! The order of its steps makes a crash harmless: the mark is written before the call, and the handle before
//! the mark is removed.

use sidecar::controller::script;

use super::ask::Ask;
use super::attempt::{End, Flow};
use super::outcome::{Problem, Task};
use super::request::{self, Call, ContentWrite, Parameters};
use super::{patch, topology};
use crate::model::{Kind, Source};

pub(super) fn create(ask: Ask<'_>) -> Flow<End> {
    let content = ask.view.content;
    if content.handle().is_some() {
        ask.unmark()?;
    }
    let Some(report) = ask.attempt.report() else {
        return ask_driver(ask);
    };
    match report.contradicts(content) {
        Some(how) => Ok(ask.fails(Task::Create, Problem::Unfit(how))),
        None => ask.record(Task::Create, &report),
    }
}

/// Everything up to the driver's response.
fn ask_driver(ask: Ask<'_>) -> Flow<End> {
    let (view, content) = (ask.view, ask.view.content);
    let fails = |problem| ask.fails(Task::Create, problem);
    if content.snapshot.uid.is_empty() {
        return Ok(fails(Problem::Unbound));
    }
    let parameters = parameters(ask).map_err(fails)?;
    let wished = topology::wished(view).map_err(|why| fails(Problem::Topology(why)))?;
    let wished = wished.filter(|_| content.kind() == Kind::Single);
    let understood = view.driver.abilities.topology;
    if wished.is_some() && !understood {
        ask.warn(topology::ignored(view))?;
    }
    let secrets = ask.annotated_secret(Task::Create)?;
    mark(ask)?;
    let with = (parameters, secrets);
    script::call(match &content.source {
        Some(Source::Volume(volume)) => {
            let mut request = request::create(content, volume, with, view.settings);
            request.accessibility_requirements = wished.filter(|_| understood);
            Call::Create(view.call(request))
        }
        Some(Source::Volumes(volumes)) => {
            let request = request::create_group(content, volumes, with, view.settings);
            Call::CreateGroup(view.call(request))
        }
        Some(Source::Snapshot(_) | Source::Group(_)) | None => return Ok(End::Done),
    })
}

/// Marks the content, so that it stays until the outcome of the call is known. The mark of another process is written
/// again: a patch that is still in flight may remove it.
fn mark(ask: Ask<'_>) -> Flow<()> {
    let content = ask.view.content;
    let protected = content.is_protected() || content.deleting;
    let marked = content.being_created && protected && ask.attempt.start.owns_mark;
    let due = content.handle().is_none() && !marked;
    ask.content(ContentWrite::Mark, due.then(|| patch::mark(content)))
}

/// The parameters of the first attempt, as long as this process has them.
fn parameters(ask: Ask<'_>) -> Result<Parameters, Problem> {
    if let Some(parameters) = &ask.attempt.start.parameters {
        return Ok(Parameters::clone(parameters));
    }
    let view = ask.view;
    let named = view.content.class.as_ref().ok_or(Problem::NoClassNamed)?;
    let class = view.class.ok_or_else(|| Problem::NoClass(named.clone()))?;
    let found = request::parameters((view.name, view.content), class, view.settings);
    found.map_err(Problem::ReservedKey)
}
