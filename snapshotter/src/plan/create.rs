//! The steps that create a snapshot, and repeat the same request until it is ready.
//!
//! Their order makes a crash harmless: the mark is written before the call, and the handle before
//! the mark is removed.

use super::attempt::{Attempt, End, Next};
use super::outcome::{Problem, Task};
use super::request::{self, Call, ContentWrite, Parameters, StatusWrite, Use};
use super::secret::{self, Unnamed};
use super::{View, patch, topology};
use crate::model::{Kind, Source};

/// The next request.
pub(super) fn decide(attempt: &Attempt, view: &View<'_>) -> Next {
    let content = view.content;
    let fails = |problem| Next::Fail(Task::Create, problem);
    if content.handle().is_some() && content.being_created {
        return Next::ask(view.patch(ContentWrite::Unmark, patch::unmark(content)));
    }
    if let Some(said) = attempt.said() {
        if let Some(how) = said.contradicts(content) {
            return fails(Problem::Unfit(how));
        }
        if let Some(topology) = topology::news(view, said) {
            let body = patch::topology(content, topology);
            return Next::ask(view.patch(ContentWrite::Topology(Task::Create), body));
        }
        return match patch::report(content, said) {
            Some(body) => Next::ask(view.patch_status(StatusWrite::Report(Task::Create), body)),
            None if said.ready => Next::End(End::Done),
            None => Next::End(End::NotReady),
        };
    }
    let Some(source) = &content.source else {
        return Next::End(End::Done);
    };
    if content.snapshot.uid.is_empty() {
        return fails(Problem::Unbound);
    }
    let parameters = match parameters(attempt, view) {
        Ok(parameters) => parameters,
        Err(problem) => return fails(problem),
    };
    let topology = match topology::wished(view) {
        Ok(topology) => topology.filter(|_| content.kind() == Kind::Single),
        Err(why) => return fails(Problem::Topology(why)),
    };
    let understood = view.driver.abilities.topology;
    if topology.is_some() && !understood && !attempt.is_warned() {
        return Next::ask(view.announce(topology::ignored(view)));
    }
    let secret = match secret::annotated(content) {
        Ok(secret) => secret,
        Err(Unnamed) => return fails(Problem::Unnamed),
    };
    let Some(secrets) = attempt.secrets(secret.as_ref()) else {
        return Next::load(Use::Create, secret);
    };
    let protected = content.is_protected() || content.deleting;
    let marked = content.being_created && protected && attempt.owns_mark();
    if content.handle().is_none() && !marked {
        return Next::ask(view.patch(ContentWrite::Mark, patch::mark(content)));
    }
    let with = (parameters, secrets);
    match source {
        Source::Volume(volume) => {
            let mut request = request::create(content, volume, with, view.settings);
            request.accessibility_requirements = topology.filter(|_| understood);
            Next::call(Call::Create(request.into()))
        }
        Source::Volumes(volumes) => {
            let request = request::create_group(content, volumes, with, view.settings);
            Next::call(Call::CreateGroup(request.into()))
        }
        Source::Snapshot(_) | Source::Group(_) => Next::End(End::Done),
    }
}

/// The parameters of the first attempt, as long as this process has them.
fn parameters(attempt: &Attempt, view: &View<'_>) -> Result<Parameters, Problem> {
    if let Some(parameters) = attempt.parameters() {
        return Ok(Parameters::clone(parameters));
    }
    let named = view.content.class.as_ref().ok_or(Problem::NoClassNamed)?;
    let class = view.class.ok_or_else(|| Problem::NoClass(named.clone()))?;
    let found = request::parameters((view.name, view.content), class, view.settings);
    found.map_err(Problem::ReservedKey)
}
