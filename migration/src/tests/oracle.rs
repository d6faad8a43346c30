//! The library of upstream's sidecars, behind pipes: `e2e/translate`.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;

use serde_json::Value;

/// Requests that are written before what was written is pushed out.
const BATCH: usize = 256;
/// Requests without answer.
const UNDER_WAY: usize = 1024;

/// The program, unless it is missing. Where it must not be, that fails.
pub(super) fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/translate");
    let program = std::env::var_os("TRANSLATE").map_or(built, PathBuf::from);
    if program.exists() {
        return Some(program);
    }
    let missing = format!(
        "no {}, which `make translator` builds with Go",
        program.display()
    );
    let ci = std::env::var("CI").unwrap_or_default();
    assert!(ci != "true", "{missing}");
    println!("skipped: {missing}");
    None
}

/// Asks the program each of `requests`, and gives it and the answer to `look`.
pub(super) fn ask(
    program: &Path,
    requests: impl Iterator<Item = Value> + Send,
    mut look: impl FnMut(Value, Value),
) {
    let mut oracle = Stopped(
        Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut input = BufWriter::with_capacity(1 << 16, oracle.0.stdin.take().unwrap());
    let mut output = BufReader::with_capacity(1 << 16, oracle.0.stdout.take().unwrap());
    let (send, asked) = sync_channel(UNDER_WAY);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for (number, request) in requests.enumerate() {
                serde_json::to_writer(&mut input, &request).unwrap();
                input.write_all(b"\n").unwrap();
                // Known before it is pushed out: whoever waits for room in the pipe must find its
                // answers being read.
                if send.send(request).is_err() {
                    return;
                }
                if number % BATCH == 0 {
                    input.flush().unwrap();
                }
            }
            input.flush().unwrap();
        });
        let mut line = String::new();
        for request in asked {
            line.clear();
            output.read_line(&mut line).unwrap();
            let answer = serde_json::from_str(&line);
            let answer = answer.unwrap_or_else(|error| panic!("{error}: {request}: {line}"));
            look(request, answer);
        }
    });
}

/// A process that does not outlive the test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
