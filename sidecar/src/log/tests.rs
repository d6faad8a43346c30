//! Tests of the log, and a capture of its lines for other tests.

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, Once};

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;

use super::*;

thread_local! {
    /// This thread's capture, if any: text lines and JSON lines.
    static CAPTURED: RefCell<Option<[String; 2]>> = const { RefCell::new(None) };
}

/// Captures this thread's lines until dropped.
pub(crate) struct Capture(());

impl Capture {
    /// The text lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines_as(Format::Text)
    }

    fn lines_as(&self, format: Format) -> Vec<String> {
        CAPTURED.with_borrow(|captured| {
            let captured = captured.as_ref().unwrap();
            captured[format as usize]
                .lines()
                .map(str::to_owned)
                .collect()
        })
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        CAPTURED.set(None);
    }
}

/// Captures this thread's lines.
///
/// One subscriber serves the whole process: with one per test, tracing's cache of interested
/// subscribers loses lines when tests run side by side.
pub(crate) fn capture() -> Capture {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let lines = |format: Format| layer::Lines {
            format,
            own: &["own"],
            controllers: &[("csi_attacher", "attacher"), ("resizer", "resizer")],
            write: move |line: &str| {
                CAPTURED.with_borrow_mut(|captured| {
                    if let Some(captured) = captured {
                        captured[format as usize].push_str(line);
                    }
                });
            },
        };
        let both = Registry::default()
            .with(lines(Format::Text))
            .with(lines(Format::Json));
        tracing::subscriber::set_global_default(both).unwrap();
    });
    CAPTURED.set(Some(Default::default()));
    Capture(())
}

/// A test's turn at the process-wide verbosity.
pub(crate) struct Turn {
    _turn: MutexGuard<'static, ()>,
}

/// Sets the process-wide verbosity until the turn is dropped.
pub(crate) fn at_verbosity(level: u32) -> Turn {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    VERBOSITY.store(level, Ordering::Relaxed);
    Turn { _turn: turn }
}

impl Drop for Turn {
    fn drop(&mut self) {
        VERBOSITY.store(0, Ordering::Relaxed);
    }
}

/// A text line without its header, which carries time and process.
fn body(line: &str) -> &str {
    line.split_once("] ").unwrap().1
}

#[test]
fn text_line() {
    let log = capture();
    tracing::warn!(count = 3, on = true, name = "a b", "it \"happened\"");
    let lines = log.lines();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with('W'), "{lines:?}");
    let header = format!("{:7} tests.rs:", std::process::id());
    assert!(lines[0].contains(&header), "{lines:?}");
    assert_eq!(
        body(&lines[0]),
        r#""it \"happened\"" count=3 on=true name="a b""#
    );
}

#[test]
fn a_59_each_line_of_a_controllers_crate_says_whose_it_is() {
    let log = capture();
    tracing::info!(target: "csi_attacher::work", volume = "v", "attached");
    tracing::error!(target: "resizer", err = "boom", "not resized");
    tracing::info!(target: "csi_attacher", controller = "another", "said already");
    tracing::info_span!(target: "own", "seat", controller = "of the span")
        .in_scope(|| tracing::info!(target: "sidecar::queue", "of the library"));
    tracing::info!(target: "own", "of the process");
    // Neither a crate of that name nor a library whose info messages appear.
    tracing::info!(target: "csi_attacher_too", "lost");
    let lines = log.lines();
    let bodies: Vec<_> = lines.iter().map(|line| body(line)).collect();
    assert_eq!(
        bodies,
        [
            r#""attached" volume="v" controller="attacher""#,
            r#""not resized" err="boom" controller="resizer""#,
            r#""said already" controller="another""#,
            r#""of the library" controller="of the span""#,
            r#""of the process""#,
        ]
    );
    let said: Vec<_> = { log.lines_as(Format::Json).into_iter() }
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            line.get("controller").cloned()
        })
        .collect();
    let text = |text: &str| Some(serde_json::Value::from(text));
    let expected = [
        text("attacher"),
        text("resizer"),
        text("another"),
        text("of the span"),
        None,
    ];
    assert_eq!(said, expected);
}

#[test]
fn the_cause_of_an_error_comes_first_and_is_called_err() {
    let log = capture();
    let cause = std::io::Error::other("boom");
    tracing::error!(claim = "ns/a", error = %crate::error::Chain(&cause), "failed");
    assert_eq!(body(&log.lines()[0]), r#""failed" err="boom" claim="ns/a""#);
    let cause: &(dyn std::error::Error + 'static) = &cause;
    tracing::info!(claim = "ns/a", error = cause, "failed");
    assert_eq!(body(&log.lines()[1]), r#""failed" claim="ns/a" err="boom""#);
}

#[test]
fn context_is_inherited_and_what_is_closer_wins() {
    let log = capture();
    let outer = tracing::info_span!("sync", attachment = "va1", node = "n1");
    let _outer = outer.enter();
    let inner = tracing::info_span!("call", node = "n2", late = tracing::field::Empty);
    inner.in_scope(|| {
        tracing::Span::current().record("late", "now");
        tracing::info!(attachment = "va2", "m");
    });
    assert_eq!(
        body(&log.lines()[0]),
        r#""m" attachment="va2" node="n2" late="now""#
    );
}

#[test]
fn a_value_cannot_start_a_line_of_its_own() {
    let log = capture();
    tracing::info!(name = "a\nE0101 forged", "m\nforged");
    assert_eq!(log.lines().len(), 1);
}

#[test]
fn fa_10_json_says_the_same_with_what_hides_escaped() {
    let log = capture();
    let name = "a\u{202e}\u{200b}\u{e0041}容量";
    tracing::info!(name, "m");
    let line = log.lines_as(Format::Json).remove(0);
    assert!(line.contains(r"a\u202e\u200b\udb40\udc41容量"), "{line}");
    let object: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(object["name"], name);
}

#[test]
fn libraries_may_only_warn() {
    let _turn = at_verbosity(0);
    let log = capture();
    tracing::info!(target: "h2::client", "no");
    tracing::debug!(target: "own::module", "no");
    tracing::info!(target: "own::module", "yes");
    tracing::warn!(target: "h2::client", "yes");
    tracing::warn!(target: "kube_client::client", "would show a whole body");
    tracing::error!(target: "kube_client::client", "yes");
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
}

#[test]
fn row_33_verbosity() {
    let _turn = at_verbosity(2);
    let log = capture();
    crate::verbose!(2, driver = "d", "yes {}", 1);
    crate::verbose!(3, "no");
    let lines = log.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(body(&lines[0]), r#""yes 1" driver="d""#);
    assert!(lines[0].starts_with('I'));
}

#[test]
fn row_83_json_lines() {
    let _turn = at_verbosity(5);
    let log = capture();
    crate::verbose!(5, request = "{\"name\":\"a\\b\"}", n = 7, "GRPC call");
    tracing::error!(error = "boom\n\u{1}", weight = f64::NAN, "failed");
    crate::verbose!(5, err = NIL, "fine");
    let lines = log.lines_as(Format::Json);
    let objects: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(objects[0]["msg"], "GRPC call");
    assert_eq!(objects[0]["v"], 5);
    assert_eq!(objects[0]["n"], 7);
    assert_eq!(objects[0]["request"], "{\"name\":\"a\\b\"}");
    assert!(objects[0]["ts"].as_f64().unwrap() > 1.7e12);
    assert!(
        objects[0]["caller"]
            .as_str()
            .unwrap()
            .starts_with("tests.rs:")
    );
    assert_eq!(objects[1]["err"], "boom\n\u{1}");
    assert_eq!(objects[1]["weight"], "NaN");
    assert!(objects[1].get("v").is_none(), "errors carry no v");
    assert!(objects[2]["err"].is_null());
}

#[test]
fn vmodule_patterns_match_file_names() {
    let patterns = [("run*".to_owned(), 3), ("src/x/?b".to_owned(), 5)];
    assert_eq!(file_verbosity(&patterns, "src/run.rs"), 3);
    assert_eq!(file_verbosity(&patterns, "src/runner.rs"), 3);
    assert_eq!(file_verbosity(&patterns, "src/x/ab.rs"), 5);
    assert_eq!(file_verbosity(&patterns, "src/x/abc.rs"), 0);
}

mod flags {
    use super::*;
    use crate::flags::{self, Dialect, Spec, retired, standard};

    static SPEC: Spec = Spec {
        dialect: Dialect::Go,
        tables: &[standard::LOGGING],
        retired: &retired::NONE,
    };

    fn config(arguments: &[&str]) -> Result<Config, Exit> {
        let line = ["prog"].iter().chain(arguments);
        Config::from_flags(&flags::parse(&SPEC, line).unwrap())
    }

    #[test]
    fn defaults() {
        assert_eq!(config(&[]), Ok(Config::default()));
        let json = config(&["--logging-format=json", "-v=5"]).unwrap();
        assert_eq!((json.format, json.verbosity), (Format::Json, 5));
    }

    #[test]
    fn rows_77_84_and_r_14_what_cannot_be_ends_with_1_and_names_the_flag() {
        for (arguments, name, reason) in [
            (
                &["--logging-format=xml"][..],
                "--logging-format",
                "Unsupported log format",
            ),
            (
                &["--log-flush-frequency=0s"],
                "--log-flush-frequency",
                "greater than zero",
            ),
            (
                &["--log-flush-frequency=-1s"],
                "--log-flush-frequency",
                "greater than zero",
            ),
            (
                &["--log-text-split-stream"],
                "--log-text-split-stream",
                "alpha",
            ),
            (
                &["--log-json-split-stream"],
                "--log-json-split-stream",
                "alpha",
            ),
            (
                &["--log-text-info-buffer-size=1Ki"],
                "--log-text-info-buffer-size",
                "alpha",
            ),
            (
                &["--log-json-info-buffer-size=1"],
                "--log-json-info-buffer-size",
                "alpha",
            ),
            (
                &["--logging-format=json", "--vmodule=a=1"],
                "--vmodule",
                "text",
            ),
        ] {
            let exit = config(arguments).unwrap_err();
            let error = exit.error.unwrap();
            assert_eq!((exit.code, exit.stdout.as_str()), (1, ""));
            assert!(error.contains(name) && error.contains(reason), "{error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let exit = config(&["--logging-format=xml", "--log-flush-frequency=0"]).unwrap_err();
        let error = exit.error.unwrap();
        assert!(error.contains("--logging-format") && error.contains("--log-flush-frequency"));
    }
}
