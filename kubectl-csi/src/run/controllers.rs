//! Asks the controllers behind a finished verdict. Whatever fails is one more thing that was not looked at: the verdict
//! and its exit code stand.

use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use sidecar::shutdown::{Shutdown, Signal};
use tokio::time::{Instant, timeout_at};

use super::{Source, settled};
use crate::args::Ask;
use crate::model::Ref;
use crate::plan::{Answerers, Seen, Verdict, answerers, questions};
use crate::work::ask_pod;

/// How long all controllers together may delay the verdict.
const PATIENCE: Duration = Duration::from_secs(10);

/// Adds what the controllers say about the objects on the path.
pub(super) async fn ask((source, own): (&Source, &mut Seen), ask: &Ask, verdict: &mut Verdict) {
    let questions = questions(verdict);
    if !ask.endpoint || questions.is_empty() || matches!(source, Source::Files(_)) {
        return;
    }
    // Without a handler a signal would end this process alone, and each kubectl would go on forwarding.
    let why = match Shutdown::listen(&[Signal::Interrupt, Signal::Terminate]) {
        Ok(signals) => tokio::select! {
            () = asked((source, own), ask, &questions, verdict) => return,
            () = signals.requested() => "interrupted by a signal".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    not_looked_at(verdict, "answers of controllers".to_owned(), why);
}

async fn asked(
    (source, own): (&Source, &mut Seen),
    ask: &Ask,
    questions: &[(Ref, String)],
    verdict: &mut Verdict,
) {
    let deadline = Instant::now() + PATIENCE;
    let objects: Vec<_> = questions.iter().map(|(object, _)| object.clone()).collect();
    let select = |seen: &Seen, now: Timestamp| answerers(seen, &objects, now);
    let selecting = settled((source, own), "the controllers' pods", select);
    let selected = match timeout_at(deadline, selecting).await {
        Ok(selected) => selected.map_err(|error| error.to_string()),
        Err(_elapsed) => Err("no answer in time".to_owned()),
    };
    let selected = selected.unwrap_or_else(|why| {
        let unseen = ("pods of controllers".to_owned(), why);
        Answerers {
            unseen: [unseen].into(),
            ..Answerers::default()
        }
    });
    for (what, why) in selected.unseen {
        not_looked_at(verdict, what, why);
    }
    let ports = &selected.ports;
    let asked = ports
        .iter()
        .map(|of| ask_pod(&ask.access, of, questions, deadline));
    for (of, (told, error)) in ports.iter().zip(join_all(asked).await) {
        verdict.controllers.extend(told);
        if let Some(why) = error {
            let what = format!("answers of pod {} at port {}", of.pod_path(), of.port);
            not_looked_at(verdict, what, why);
        }
    }
}

fn not_looked_at(verdict: &mut Verdict, what: String, why: String) {
    let one = (what, why);
    if !verdict.unseen.contains(&one) {
        verdict.unseen.push(one);
    }
}
