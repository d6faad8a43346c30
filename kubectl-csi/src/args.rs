//! The command line.
//!
//! Users type it behind `kubectl`, so it follows GNU: short and long flags anywhere, subjects in between. The tables of
//! `sidecar::flags` are for Go's syntax, which has no arguments; here clap reads the line, and one table of flags makes
//! the parser, the help, the completions and the manual.
//!
//! | file | holds |
//! |---|---|
//! | `table` | the flags |
//! | `audit` | parses the flags of `audit` |
//! | `completion` | scripts for shells |
//! | `manual` | the manual |

mod audit;
mod completion;
mod manual;
mod table;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command};
use sidecar::rt::Exit;

use crate::model::{Kind, Ref, SUBJECTS};
use crate::show::Format;
use crate::work::Access;

pub use audit::AuditAsk;
pub use table::{FLAGS, Flag, Takes, audit};

/// The parsed command line of `why`.
#[derive(Clone, Debug)]
pub struct Ask {
    /// `None`: everything that is stuck. An empty namespace means the context's.
    pub subject: Option<Ref>,
    pub namespace: String,
    pub everywhere: bool,
    pub format: Format,
    pub all: bool,
    pub watch: bool,
    /// Controllers are asked.
    pub endpoint: bool,
    pub offline: Option<PathBuf>,
    pub access: Access,
}

/// The command to run, with its parsed command line.
#[derive(Clone, Debug)]
pub enum Task {
    /// Compares the driver's storage with the cluster.
    Audit(Box<AuditAsk>),
    /// Explains why something is stuck.
    Why(Box<Ask>),
    /// Reports the changes that other images bring: arguments for csi-sidecars.
    Preflight(Vec<OsString>),
}

/// Shells that completion scripts exist for.
pub const SHELLS: &[&str] = &["bash", "zsh", "fish"];

const ABOUT: &str = "Follows a pod, claim, volume, attachment or snapshot to the first thing that holds it up, and says what to do. It only reads.";

/// Text of `--help` behind the flags; `program` is the name that the program was called by.
fn examples(program: &str) -> String {
    let mut text = format!(
        "Examples:
  {program} pod/db-0 -n shop      what holds up this pod
  {program} pvc data              the same for a claim
  {program}                       everything stuck in this namespace, by cause
  {program} -A                    everywhere
  {program} pod/db-0 --watch      until it is no longer stuck
  {program} -A --offline dump     of a cluster that is elsewhere, whose objects these wrote down:
"
    );
    for (index, command) in crate::model::dumps().iter().enumerate() {
        if index == 1 {
            text.push_str("    and of these what the cluster has:\n");
        }
        text.push_str(&format!("    {command}\n"));
    }
    text.push_str("
Exit codes: 0 nothing is stuck, 1 could not look at everything, 2 command line, 3 stuck and the cause found,
4 stuck and no cause found, 5 waits as it should. --watch ends with 0 when the subject is no longer stuck or
is gone, and after a signal with the code of what it said last.");
    text
}

fn flags(command: Command, flags: impl Iterator<Item = &'static Flag>) -> Command {
    flags.fold(command, |command, flag| {
        let arg = Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .help_heading(flag.heading);
        let arg = match flag.short {
            Some(short) => arg.short(short),
            None => arg,
        };
        let arg = match flag.takes {
            Takes::Nothing => arg.action(ArgAction::SetTrue),
            Takes::One(name) => arg.value_name(name).action(ArgAction::Set),
            Takes::Many(name) => arg.value_name(name).action(ArgAction::Append),
            Takes::OneOf(values) => arg.value_parser(values.to_vec()).action(ArgAction::Set),
        };
        command.arg(arg)
    })
}

fn why(program: &str) -> Command {
    let subject = Arg::new("subject").value_name("KIND/NAME").num_args(0..=2).help("What is stuck: pod, pvc, pv, volumeattachment, volumesnapshot, volumesnapshotcontent, volumegroupsnapshot, node or csidriver, as KIND/NAME or KIND NAME; without it everything that is stuck");
    flags(Command::new("why").about(ABOUT), FLAGS.iter())
        .arg(subject)
        .after_help(examples(program))
}

fn command() -> Command {
    let shell = Arg::new("shell")
        .required(true)
        .value_parser(SHELLS.to_vec());
    Command::new(PLUGIN)
        .about("Why CSI volumes are stuck, what storage has beside the cluster, and what a change of images would change. Called as csi-why it is `why`.")
        .disable_version_flag(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(why("kubectl csi why"))
        .subcommand(audit::command())
        .subcommand(
            Command::new("preflight")
                .about("What changes if the images of a driver's sidecars change; csi-sidecars answers it")
                .disable_help_flag(true)
                .arg(
                    Arg::new("arguments")
                        .num_args(0..)
                        .trailing_var_arg(true)
                        .allow_hyphen_values(true)
                        .value_parser(clap::value_parser!(OsString)),
                ),
        )
        .subcommand(
            Command::new("completion")
                .about("A script that completes this program's command line in a shell")
                .arg(shell),
        )
        .subcommand(Command::new("manual").about("This program's manual page, for man -l -"))
        .subcommand(Command::new("version").about("This program's version"))
}

/// Name in the help when kubectl calls the program, which it finds by the file name kubectl-csi.
const PLUGIN: &str = "kubectl csi";
/// File name under which the program has no subcommands and is `why` alone.
const ALONE: &str = "csi-why";

/// Parses the command line; the first argument is the program's name.
///
/// # Errors
/// The text to print and the exit code: 2 for an invalid command line, 0 for help, the version or a script.
pub fn parse(argv: impl IntoIterator<Item = OsString>) -> Result<Task, Exit> {
    let mut argv = argv.into_iter();
    let name = argv.next().unwrap_or_default();
    let alone = Path::new(&name)
        .file_stem()
        .is_some_and(|name| name == ALONE);
    let (command, program) = match alone {
        true => (why(ALONE), ALONE),
        false => (command(), PLUGIN),
    };
    let command = command.no_binary_name(true).bin_name(program);
    let matches = match command.try_get_matches_from(argv) {
        Ok(matches) => matches,
        Err(error) => return Err(refused(&error)),
    };
    let wrong = |problem: String, help: &str| Exit {
        stderr: format!("error: {problem}\nSee: {help} --help\n"),
        ..Exit::with_code(2)
    };
    let asked = |matches: &ArgMatches, help: &str| {
        let ask = ask(matches).map(|ask| Task::Why(Box::new(ask)));
        ask.map_err(|problem| wrong(problem, help))
    };
    match matches.subcommand() {
        Some(("completion", matches)) => {
            let shell = matches.get_one::<String>("shell");
            Err(printed(completion::script(
                shell.map_or("", String::as_str),
            )))
        }
        Some(("manual", _)) => Err(printed(manual::page(
            &examples("kubectl csi why"),
            audit::HELP,
        ))),
        Some(("preflight", matches)) => {
            let arguments = matches.get_many::<OsString>("arguments");
            Ok(Task::Preflight(
                arguments.into_iter().flatten().cloned().collect(),
            ))
        }
        Some(("audit", matches)) => {
            let ask = audit::ask(matches).map(|ask| Task::Audit(Box::new(ask)));
            ask.map_err(|problem| wrong(problem, "kubectl csi audit"))
        }
        Some(("version", _)) => Err(Exit::version("kubectl-csi")),
        Some((_, matches)) => asked(matches, "kubectl csi why"),
        // clap requires a subcommand, except under the name that has none.
        None => asked(&matches, ALONE),
    }
}

fn printed(stdout: String) -> Exit {
    Exit {
        stdout,
        ..Exit::with_code(0)
    }
}

fn refused(error: &clap::Error) -> Exit {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelp {
        return printed(text);
    }
    Exit {
        stderr: text,
        ..Exit::with_code(2)
    }
}

fn text(matches: &ArgMatches, name: &str) -> String {
    matches.get_one::<String>(name).cloned().unwrap_or_default()
}

/// The flag's duration, `None` if it is not given; the error is the message for the user.
fn duration(matches: &ArgMatches, name: &str) -> Result<Option<Duration>, String> {
    let text = text(matches, name);
    if text.is_empty() {
        return Ok(None);
    }
    let problem = || format!("--{name}={text:?}: a duration needs a unit: 5s, 1m30s");
    seconds(&text).ok_or_else(problem).map(Some)
}

fn format(matches: &ArgMatches) -> Format {
    match &*text(matches, "output") {
        "json" => Format::Json,
        "name" => Format::Name,
        _ => Format::Human,
    }
}

fn access(matches: &ArgMatches) -> Result<Access, String> {
    let text = |name| text(matches, name);
    let timeout = duration(matches, "request-timeout")?;
    Ok(Access {
        kubeconfig: text("kubeconfig"),
        context: text("context"),
        cluster: text("cluster"),
        user: text("user"),
        server: text("server"),
        token: text("token"),
        certificate_authority: text("certificate-authority"),
        client_certificate: text("client-certificate"),
        client_key: text("client-key"),
        tls_server_name: text("tls-server-name"),
        insecure: matches.get_flag("insecure-skip-tls-verify"),
        as_user: text("as"),
        as_uid: text("as-uid"),
        as_groups: { matches.get_many::<String>("as-group") }
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        timeout: timeout.filter(|timeout| !timeout.is_zero()),
    })
}

fn ask(matches: &ArgMatches) -> Result<Ask, String> {
    let words: Vec<&str> = { matches.get_many::<String>("subject") }
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let everywhere = matches.get_flag("all-namespaces");
    let namespace = text(matches, "namespace");
    check_namespace(&namespace)?;
    let subject = subject(&words, &namespace)?;
    if everywhere
        && subject
            .as_ref()
            .is_some_and(|subject| subject.kind.is_namespaced())
    {
        return Err(
            "-A is for the overview; with one object name its namespace: -n NAMESPACE".to_owned(),
        );
    }
    let offline = matches.get_one::<String>("offline").map(PathBuf::from);
    let watch = matches.get_flag("watch");
    if watch && offline.is_some() {
        return Err(
            "--watch: a file of --offline does not change; leave one of them out".to_owned(),
        );
    }
    if watch && subject.is_none() {
        return Err("--watch: name what to watch, as KIND/NAME".to_owned());
    }
    Ok(Ask {
        subject,
        namespace,
        everywhere,
        format: format(matches),
        all: matches.get_flag("all"),
        watch,
        endpoint: !matches.get_flag("no-endpoint"),
        offline,
        access: access(matches)?,
    })
}

fn seconds(text: &str) -> Option<Duration> {
    let text = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("{text}s")
    } else {
        text.to_owned()
    };
    let duration: sidecar::duration::GoDuration = text.parse().ok()?;
    duration.to_std()
}

fn check_namespace(namespace: &str) -> Result<(), String> {
    if namespace.is_empty() || sidecar::names::is_label(namespace) {
        return Ok(());
    }
    Err(format!(
        "--namespace={namespace:?}: not a valid name of a namespace: use lower-case letters, digits and dashes"
    ))
}

fn subject(words: &[&str], namespace: &str) -> Result<Option<Ref>, String> {
    let (kind, name) = match words {
        [] => return Ok(None),
        [one] => one
            .split_once('/')
            .ok_or_else(|| format!("{one:?}: write KIND/NAME, for example pod/{one}"))?,
        [kind, name, ..] if kind.contains('/') => {
            return Err(format!(
                "{name:?}: one object at a time; leave it out, or ask about it afterwards"
            ));
        }
        [kind, name, ..] => (*kind, *name),
    };
    let Some(kind) = Kind::of_word(kind) else {
        let known: Vec<_> = SUBJECTS.iter().map(|kind| kind.called()).collect();
        return Err(format!(
            "{kind:?}: unknown kind; use one of {}",
            known.join(", ")
        ));
    };
    if !sidecar::names::is_subdomain(name) {
        return Err(format!(
            "{name:?}: not a valid name of an object: use lower-case letters, digits, dashes and dots"
        ));
    }
    Ok(Some(Ref::new(kind, namespace, name)))
}

#[cfg(test)]
mod tests;
