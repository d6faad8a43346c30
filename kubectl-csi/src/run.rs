//! Asks, looks, and asks again, until there is an answer.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use jiff::Timestamp;
use rustix::termios::tcgetwinsize;
use sidecar::rt::Exit;

use crate::args::{self, Ask};
use crate::model::Ref;
use crate::plan::{Next, Question, Scope, Seen, State, Verdict, decide, survey};
use crate::show::{self, Style};
use crate::work::{Cluster, connect, read};

/// Between two looks of `--watch`.
const AGAIN: Duration = Duration::from_secs(5);
/// A decision that asks for more so often does not come to an end.
const ROUNDS: usize = 60;

/// Where it is looked.
enum Source {
    Cluster(Cluster),
    Files(Box<Seen>),
}

/// The program.
///
/// # Errors
/// What it prints and how it ends, always.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let ask = args::parse(argv)?;
    let source = match &ask.offline {
        Some(path) => {
            let (seen, unreadable) = read(path)?;
            if unreadable > 0 {
                let text = format!(
                    "{unreadable} objects of {} could not be read and are left out\n",
                    path.display()
                );
                let _ = std::io::stderr().write_all(text.as_bytes());
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
    let style = style();
    let Some(subject) = &ask.subject else {
        return overview(source, &ask, namespace, style).await;
    };
    let subject = Ref::new(subject.kind, &namespace, &subject.name);
    let question = Question {
        subject,
        all: ask.all,
    };
    let mut verdict = answer(&source, &question).await?;
    if !ask.watch {
        return Err(said(
            show::verdict(&verdict, ask.format, style),
            verdict.code(),
        ));
    }
    let mut last = None;
    loop {
        let first = verdict.causes.first().map(|cause| cause.id);
        let now = (verdict.state, first, verdict.absent);
        if last.replace(now) != Some(now) {
            let text = show::verdict(&verdict, ask.format, style);
            let _ = std::io::stdout().write_all(format!("{text}\n").as_bytes());
            let _ = std::io::stdout().flush();
        }
        if verdict.state == State::Fine || verdict.absent {
            let code = u8::from(verdict.absent);
            return Err(Exit::with_code(code));
        }
        tokio::time::sleep(AGAIN).await;
        verdict = answer(&source, &question).await?;
    }
}

fn said(stdout: String, code: u8) -> Exit {
    Exit {
        stdout,
        ..Exit::with_code(code)
    }
}

async fn answer(source: &Source, question: &Question) -> Result<Verdict, Exit> {
    let mut own = Seen::default();
    for _ in 0..ROUNDS {
        let (seen, now) = match source {
            Source::Cluster(cluster) => (&own, cluster.now()),
            Source::Files(seen) => (&**seen, newest(seen)),
        };
        match (decide(seen, question, now), source) {
            (Next::Say(verdict), _) => return Ok(*verdict),
            (Next::Look(wants), Source::Cluster(cluster)) => cluster.look(&mut own, wants).await?,
            // A file answers everything.
            (Next::Look(_), Source::Files(_)) => break,
        }
    }
    Err(Exit::failure(
        1,
        "this leads from object to object without an end; please report it with the objects",
    ))
}

async fn overview(source: Source, ask: &Ask, namespace: String, style: Style) -> Result<(), Exit> {
    let (place, scope) = match ask.everywhere {
        true => ("in this cluster".to_owned(), Scope { namespace: None }),
        false => (
            format!("in namespace {namespace}"),
            Scope {
                namespace: Some(namespace),
            },
        ),
    };
    let mut own = Seen::default();
    for _ in 0..ROUNDS {
        let (seen, now) = match &source {
            Source::Cluster(cluster) => (&own, cluster.now()),
            Source::Files(seen) => (&**seen, newest(seen)),
        };
        match (survey(seen, &scope, now), &source) {
            (Ok(overview), _) => {
                return Err(said(
                    show::overview(&overview, &place, ask.format, style),
                    overview.code(),
                ));
            }
            (Err(wants), Source::Cluster(cluster)) => cluster.look(&mut own, wants).await?,
            (Err(_), Source::Files(_)) => break,
        }
    }
    Err(Exit::failure(
        1,
        "this leads from object to object without an end; please report it with the objects",
    ))
}

/// What "now" was when the objects were written down.
fn newest(seen: &Seen) -> Timestamp {
    seen.newest().unwrap_or_else(Timestamp::now)
}

/// Colour on a terminal alone, and lines as long as it is wide.
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
