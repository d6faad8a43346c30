//! Runs a command: decides, reads the requested objects, and decides again until there is an answer.

mod controllers;

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use rustix::termios::tcgetwinsize;
use sidecar::rt::Exit;
use sidecar::shutdown::{Shutdown, Signal};

use crate::args::{self, Ask, AuditAsk, Task};
use crate::model::Ref;
use crate::plan::{
    Audit, Compare, Next, Question, Scope, Seen, State, Verdict, Want, compare, decide, handles,
    survey,
};
use crate::show::{self, Format, Style};
use crate::work::{Cluster, Driver, DriverError, LookError, connect, preflight, read};

/// Pause between two looks of `--watch`.
const AGAIN: Duration = Duration::from_secs(5);
/// Rounds after which a decision that still requests more is given up.
const ROUNDS: usize = 60;

/// Source of the objects.
enum Source {
    Cluster(Cluster),
    Files(Box<Seen>),
}

/// Runs the program.
///
/// # Errors
/// Always: the output and the exit code.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let ask = match args::parse(argv)? {
        Task::Why(ask) => *ask,
        Task::Audit(ask) => return audit(&ask).await,
        Task::Preflight(arguments) => return Err(preflight(&arguments)),
    };
    let source = match &ask.offline {
        Some(path) => {
            let (seen, unreadable) = read(path)?;
            if unreadable > 0 {
                let path = path.display();
                warn(&format!(
                    "{unreadable} objects of {path} could not be read and are left out"
                ));
            }
            Source::Files(Box::new(seen))
        }
        None => Source::Cluster(Cluster::new(connect(&ask.access).await?)),
    };
    let namespace = match (&source, &*ask.namespace) {
        (Source::Cluster(cluster), "") => cluster.namespace().to_owned(),
        (Source::Files(_), "") => "default".to_owned(),
        (_, namespace) => namespace.to_owned(),
    };
    let Some(subject) = &ask.subject else {
        return overview(&source, &ask, namespace).await;
    };
    let question = Question {
        subject: Ref::new(subject.kind, &namespace, &subject.name),
        all: ask.all,
    };
    if ask.watch {
        return watch(&source, &question, &ask).await;
    }
    let mut own = Seen::default();
    let mut verdict = answer((&source, &mut own), &question).await?;
    controllers::ask((&source, &mut own), &ask, &mut verdict).await;
    let text = show::verdict(&verdict, ask.format, style());
    Err(said(&source, &ask, text, verdict.code()))
}

fn warn(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The answer; for a file it names the time that the answer is true for.
fn said(source: &Source, ask: &Ask, mut stdout: String, code: u8) -> Exit {
    if let (Source::Files(seen), Format::Human) = (source, ask.format)
        && let Some(newest) = seen.newest()
    {
        let time = newest.strftime("%Y-%m-%d %H:%M UTC");
        stdout.push_str(&format!("As of {time}, the newest time in the file\n"));
    }
    Exit {
        stdout,
        ..Exit::with_code(code)
    }
}

/// Decides, reads the requested objects into `own`, and decides again until nothing is missing.
async fn settled<T>(
    (source, own): (&Source, &mut Seen),
    what: &str,
    decide: impl Fn(&Seen, Timestamp) -> Result<T, Vec<Want>>,
) -> Result<T, LookError> {
    for _ in 0..ROUNDS {
        let decided = match source {
            Source::Cluster(cluster) => decide(own, cluster.now()),
            // Objects from a file are judged by their own time, not by the current clock.
            Source::Files(seen) => decide(seen, seen.newest().unwrap_or_default()),
        };
        match (decided, source) {
            (Ok(decided), _) => return Ok(decided),
            (Err(wants), Source::Cluster(cluster)) => cluster.look(own, wants).await?,
            // Unreachable: a file answers every request.
            (Err(_), Source::Files(_)) => break,
        }
    }
    Err(LookError::Endless(what.to_owned()))
}

async fn answer(
    (source, own): (&Source, &mut Seen),
    question: &Question,
) -> Result<Verdict, LookError> {
    let what = question.subject.to_string();
    let decide = |seen: &Seen, now| match decide(seen, question, now) {
        Next::Say(verdict) => Ok(*verdict),
        Next::Look(wants) => Err(wants),
    };
    settled((source, own), &what, decide).await
}

async fn overview(source: &Source, ask: &Ask, namespace: String) -> Result<(), Exit> {
    let (place, namespace) = match ask.everywhere {
        true => ("in this cluster".to_owned(), None),
        false => (format!("in namespace {namespace}"), Some(namespace)),
    };
    let scope = Scope { namespace };
    let survey = |seen: &Seen, now| survey(seen, &scope, now);
    let read = (source, &mut Seen::default());
    let overview = settled(read, "the overview", survey).await?;
    let text = show::overview(&overview, &place, ask.format, style());
    Err(said(source, ask, text, overview.code()))
}

/// Compares the driver's storage with the cluster, and after a pause compares the differences once more.
async fn audit(ask: &AuditAsk) -> Result<(), Exit> {
    let cluster = Cluster::new(connect(&ask.access).await?);
    let driver = Driver::connect(&ask.address, ask.timeout).await;
    let driver = driver.map_err(unanswered)?;
    let first = compared(&cluster, &driver, ask, None).await?;
    let count = first.differences.len() + first.undecided.len();
    let found = if count == 0 {
        first
    } else {
        let pause = ask.grace.as_secs();
        if ask.grace < ask.timeout {
            warn(
                "--grace is shorter than --csi-timeout: what a call makes that is under way at the first look may be listed as unknown",
            );
        }
        warn(&format!(
            "{count} differences at the first look; what still differs in {pause} s is listed (--grace)"
        ));
        tokio::time::sleep(ask.grace).await;
        let second = compared(&cluster, &driver, ask, Some(&first)).await?;
        second.confirms(&first)
    };
    let text = show::audit(&found, ask.format, style());
    Err(Exit {
        stdout: text,
        ..Exit::with_code(found.code())
    })
}

/// The exit for a driver that cannot be asked.
fn unanswered(error: DriverError) -> Exit {
    Exit::failure(1, show::error(&error))
}

/// One look: reads the storage first, so that the objects of volumes created meanwhile are in the cluster by
/// then.
async fn compared(
    cluster: &Cluster,
    driver: &Driver,
    ask: &AuditAsk,
    first: Option<&Audit>,
) -> Result<Audit, Exit> {
    let wanted = { first.map(|first| &*first.driver) }.or(ask.driver.as_deref());
    let mut storage = driver.storage(wanted).await.map_err(unanswered)?;
    let mut seen = Seen::default();
    let mut looked_up = false;
    for _ in 0..ROUNDS {
        let what = Compare {
            storage: &storage,
            owned: &ask.owned,
            first,
        };
        match compare(&seen, what, cluster.now()) {
            Err(wants) => cluster.look(&mut seen, wants).await?,
            Ok(audit) if looked_up || (audit.refused.is_some() && storage.volumes.is_known()) => {
                return Ok(audit);
            }
            Ok(_) => {
                // Handles that the driver does not list have to come from the cluster, to be looked up one by
                // one.
                let (volumes, snapshots) = handles(&seen, &storage.driver);
                let look = driver.look_up(&mut storage, &volumes, &snapshots).await;
                look.map_err(unanswered)?;
                looked_up = true;
            }
        }
    }
    Err(LookError::Endless("the audit".to_owned()).into())
}

/// Looks again and again until the subject is no longer stuck or a signal arrives.
async fn watch(source: &Source, question: &Question, ask: &Ask) -> Result<(), Exit> {
    let signals = Shutdown::listen(&[Signal::Interrupt, Signal::Terminate])?;
    let mut last: Option<Verdict> = None;
    let mut silent = false;
    let shown = |verdict: &Verdict| {
        let first = verdict.causes.first().map(|cause| cause.id);
        (verdict.state, first, verdict.absent)
    };
    loop {
        let mut own = Seen::default();
        match answer((source, &mut own), question).await {
            Ok(mut verdict) => {
                silent = false;
                if last.as_ref().map(shown) != Some(shown(&verdict)) {
                    controllers::ask((source, &mut own), ask, &mut verdict).await;
                    let text = show::verdict(&verdict, ask.format, style());
                    let _ = writeln!(std::io::stdout(), "{text}");
                    let _ = std::io::stdout().flush();
                }
                if let Some(code) = end(last.as_ref(), &verdict) {
                    return Err(Exit::with_code(code));
                }
                last = Some(verdict);
            }
            // An API server that is unreachable for a moment does not end the watch.
            Err(error @ LookError::Silent(_)) if last.is_some() => {
                if !std::mem::replace(&mut silent, true) {
                    warn(&format!(
                        "{error}; looking again every {} s",
                        AGAIN.as_secs()
                    ));
                }
            }
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = signals.requested() => {
                return Err(Exit::with_code(last.map_or(1, |last| last.code())));
            }
        }
    }
}

/// The exit code if the watch can end: a subject that existed and is gone is no longer stuck.
fn end(before: Option<&Verdict>, now: &Verdict) -> Option<u8> {
    match (now.absent, before) {
        (true, None) => Some(1),
        (true, Some(_)) => Some(0),
        (false, _) => (now.state == State::Fine).then_some(0),
    }
}

/// Colour and line width of the terminal; no colour elsewhere.
fn style() -> Style {
    let stdout = std::io::stdout();
    let terminal = stdout.is_terminal();
    let columns = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let size = tcgetwinsize(&stdout)
        .ok()
        .map(|size| usize::from(size.ws_col));
    let width = size.filter(|width| *width > 0 && terminal).or(columns);
    let plain = std::env::var_os("NO_COLOR").is_some_and(|text| !text.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    match width {
        Some(width) => Style::terminal(width, terminal && !plain && !dumb),
        None => Style {
            colour: terminal && !plain && !dumb,
            ..Style::default()
        },
    }
}
