//! The library of upstream's sidecars, behind pipes: `e2e/translate`.

use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;

use serde_json::Value;

/// Number of requests between two flushes.
const BATCH: usize = 256;
/// Greatest number of requests without answer.
const UNDER_WAY: usize = 1024;

/// The program; `None` if it is missing. Fails where it must not be missing.
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

/// Sends each of `requests` to the program, and calls `look` with it and its answer.
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
                // Announced before the flush: a writer that waits for room in the pipe needs a reader of the answers.
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

/// A process that ends with the test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
