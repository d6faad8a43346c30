//! The log: klog's text or JSON on stderr, with klog's verbosity.
//!
//! `tracing` events are the input; the formatters are our own because tools that read the Go sidecars'
//! logs must be able to read this one. Messages of libraries appear from warning level on only. Lines
//! wait in memory only while nobody reads stderr; [`flush`] waits once more for them to be read.

mod fields;
mod json;
mod layer;
mod sink;
mod text;

use std::io::Stderr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::duration::GoDuration;
use crate::flags::Values;
use crate::rt::Exit;

use sink::Sink;
pub use text::quote;

/// The value of `err` for "no error", shown as `null`.
pub const NIL: &str = "";

#[doc(hidden)]
pub use tracing as __tracing;

/// The notation of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// klog's: `I0102 15:04:05.678901       1 file.rs:12] "message" key="value"`.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The settings from the log flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Notation.
    pub format: Format,
    /// `-v`: messages up to this level appear.
    pub verbosity: u32,
    /// `--vmodule`: file name patterns with their own verbosities; the first match counts.
    pub vmodule: Vec<(String, u32)>,
    /// Lines to log as warnings once the log is up, for example about deprecated flags.
    pub warnings: Vec<String>,
}

impl Config {
    /// Parses and validates the flags of [`crate::flags::standard::LOGGING`].
    ///
    /// # Errors
    /// Exit code 1 and one line that names every flag at fault.
    pub fn from_flags(values: &Values) -> Result<Self, Exit> {
        let mut faults = Vec::new();
        let format = match values.string("logging-format") {
            "text" => Format::Text,
            "json" => Format::Json,
            other => {
                let other = quote(other);
                faults.push(format!(
                    "--logging-format={other}: Unsupported log format, use text or json"
                ));
                Format::Text
            }
        };
        let flush = values.duration("log-flush-frequency");
        if flush <= GoDuration::ZERO {
            faults.push(format!(
                "--log-flush-frequency={flush}: must be greater than zero"
            ));
        }
        let vmodule = values.levels("vmodule");
        if !vmodule.is_empty() && format == Format::Json {
            faults.push("--vmodule: only supported with --logging-format=text".to_owned());
        }
        for name in ["log-text-split-stream", "log-json-split-stream"] {
            if values.bool(name) {
                faults.push(unavailable(name));
            }
        }
        for name in ["log-text-info-buffer-size", "log-json-info-buffer-size"] {
            if values.int(name) != 0 {
                faults.push(unavailable(name));
            }
        }
        if !faults.is_empty() {
            let faults = faults.join("; ");
            return Err(Exit::failure(
                1,
                format_args!("invalid log configuration: {faults}"),
            ));
        }
        Ok(Self {
            format,
            verbosity: u32::try_from(values.uint("v")).unwrap_or(u32::MAX),
            vmodule,
            warnings: values.warnings().to_vec(),
        })
    }
}

fn unavailable(name: &str) -> String {
    format!("--{name}: alpha feature that cannot be enabled, remove the flag")
}

static VERBOSITY: AtomicU32 = AtomicU32::new(0);
static VMODULE: OnceLock<Vec<(String, u32)>> = OnceLock::new();
static UP: OnceLock<Sink<Stderr>> = OnceLock::new();

/// How long a stalled reader of the log may delay the end of the process.
const LAST_CHANCE: Duration = Duration::from_secs(2);

/// Starts the log. A second call changes nothing.
///
/// `own` names the crates whose info messages appear, each as in `module_path!()`; `sidecar` is always
/// among them. Other crates are libraries, of which only warnings appear.
pub fn init(config: &Config, own: &'static [&'static str]) {
    init_with_controllers(config, own, &[]);
}

/// Starts the log of a process with several controllers. A second call changes nothing.
///
/// `controllers` pairs crates with controller names: each of their lines gets the key `controller`,
/// unless the event has it already, and their info messages appear. `own` is as for [`init`].
pub fn init_with_controllers(
    config: &Config,
    own: &'static [&'static str],
    controllers: &'static [(&'static str, &'static str)],
) {
    let remark: fn(u64) -> String = match config.format {
        Format::Text => |lines| Format::Text.lost(lines),
        Format::Json => |lines| Format::Json.lost(lines),
    };
    let sink = Sink::new(std::io::stderr(), remark);
    if UP.set(sink.clone()).is_err() {
        return;
    }
    VERBOSITY.store(config.verbosity, Ordering::Relaxed);
    if !config.vmodule.is_empty() {
        let _ = VMODULE.set(config.vmodule.clone());
    }
    layer::install(config.format, own, controllers, sink);
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The hook writes to stderr directly, and would block on a stalled reader.
        if flush() {
            report(panic);
        }
    }));
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// Whether the log is started, so that errors go there.
pub fn is_up() -> bool {
    UP.get().is_some()
}

/// Waits for the reader of stderr, for two seconds at most, if lines are left; returns whether all are
/// written. Call it before the process exits.
pub fn flush() -> bool {
    UP.get().is_none_or(|sink| sink.flush(LAST_CHANCE))
}

/// Whether messages of `level` in source file `file` appear; [`crate::verbose!`] calls this.
pub fn enabled(level: u32, file: &str) -> bool {
    level <= VERBOSITY.load(Ordering::Relaxed)
        || VMODULE
            .get()
            .is_some_and(|patterns| level <= file_verbosity(patterns, file))
}

/// Logs a message at a verbosity (`-v`): klog's `V(n)`.
///
/// Levels by convention: 0 life cycle and errors (use `tracing::info!` and so on), 2 operations, 3
/// ignored events, 4 decisions, 5 messages of calls.
///
/// ```
/// let driver = "d.example.com";
/// sidecar::verbose!(2, driver, attempts = 3, "connected");
/// ```
#[macro_export]
macro_rules! verbose {
    ($level:expr, $($message:tt)+) => {
        if $crate::log::enabled($level, ::core::file!()) {
            $crate::log::__tracing::info!(v = $level as u64, $($message)+);
        }
    };
}

/// The verbosity that `--vmodule` gives a file: a pattern with a slash matches the path, any other the
/// file name without extension.
fn file_verbosity(patterns: &[(String, u32)], file: &str) -> u32 {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let name = path.rsplit('/').next().unwrap_or(path);
    let subject = |pattern: &str| if pattern.contains('/') { path } else { name };
    let matching = patterns
        .iter()
        .find(|(pattern, _)| glob(pattern.as_bytes(), subject(pattern).as_bytes()));
    matching.map_or(0, |(_, level)| *level)
}

/// `*` matches any text, `?` one character.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) if glob(rest, text) => true,
        (Some((b'*', _)), Some((_, text))) => glob(pattern, text),
        (Some((b'?', pattern)), Some((_, text))) => glob(pattern, text),
        (Some((a, pattern)), Some((b, text))) if a == b => glob(pattern, text),
        _ => false,
    }
}

#[cfg(test)]
pub(crate) use tests::{at_verbosity, capture};

#[cfg(test)]
mod tests;
