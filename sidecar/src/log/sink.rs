//! Writes lines to stderr without ever waiting for its reader.
//!
//! The runtime has one thread. If it waited for a pipe that nobody reads (a hung container runtime,
//! a paused terminal), the leader would lose its lease and no probe would be answered. So a line is
//! written at once where that does not block; otherwise it waits in memory, and a thread that lives
//! as long as lines wait writes it. Lines without room are counted.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Bytes of lines that may wait.
const ROOM: usize = 256 << 10;
/// A pipe that accepts anything accepts this many bytes at once (`PIPE_BUF`).
const PIECE: usize = 4096;
/// Stack size of the thread, which needs next to nothing.
const STACK: usize = 64 << 10;

/// Queues lines for a file; clones share the queue.
#[derive(Debug)]
pub(super) struct Sink<F>(Arc<Shared<F>>);

impl<F> Clone for Sink<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<F> {
    file: F,
    /// Formats the line about lost lines.
    remark: fn(u64) -> String,
    waiting: Mutex<Waiting>,
    emptied: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    lost: u64,
    /// A thread is writing the lines.
    is_served: bool,
}

impl Waiting {
    fn push(&mut self, line: Vec<u8>, remark: fn(u64) -> String) {
        // Once lines are lost, half of the room must be free again, so that one line reports the
        // loss.
        let room = if self.lost == 0 { ROOM } else { ROOM / 2 };
        if self.bytes + line.len() > room {
            self.lost += 1;
            return;
        }
        self.remark(remark);
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn remark(&mut self, remark: fn(u64) -> String) {
        if self.lost > 0 {
            let line = remark(std::mem::take(&mut self.lost)).into_bytes();
            self.bytes += line.len();
            self.lines.push_back(line);
        }
    }
}

impl<F: AsFd + Send + Sync + 'static> Sink<F> {
    /// `remark` formats the line about lost lines.
    pub(super) fn new(file: F, remark: fn(u64) -> String) -> Self {
        Self(Arc::new(Shared {
            file,
            remark,
            waiting: Mutex::default(),
            emptied: Condvar::new(),
        }))
    }

    /// Writes a line, now or later.
    pub(super) fn write(&self, line: &str) {
        let mut waiting = self.0.waiting();
        if waiting.is_served {
            waiting.push(line.as_bytes().to_owned(), self.0.remark);
            return;
        }
        // Lines are left here only if no thread could be started.
        while let Some(first) = waiting.lines.pop_front() {
            waiting.bytes = waiting.bytes.saturating_sub(first.len());
            let rest = self.0.write(&first, Patience::None);
            if !rest.is_empty() {
                waiting.bytes += rest.len();
                waiting.lines.push_front(rest.to_owned());
                break;
            }
        }
        let mut rest = line.as_bytes();
        if waiting.lines.is_empty() {
            rest = self.0.write(rest, Patience::None);
        }
        if !rest.is_empty() {
            waiting.push(rest.to_owned(), self.0.remark);
            waiting.is_served = self.serve();
        }
    }

    /// Starts the writer thread.
    fn serve(&self) -> bool {
        let shared = Arc::clone(&self.0);
        std::thread::Builder::new()
            .name("log".to_owned())
            .stack_size(STACK)
            .spawn(move || shared.serve())
            .is_ok()
    }

    /// Waits until all lines are written, for `limit` at most; returns whether they are.
    pub(super) fn flush(&self, limit: Duration) -> bool {
        let waiting = self.0.waiting();
        let waited = self
            .0
            .emptied
            .wait_timeout_while(waiting, limit, |waiting| waiting.is_served);
        let (waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.lines.is_empty() && !waiting.is_served
    }
}

#[derive(Clone, Copy)]
enum Patience {
    None,
    Endless,
}

impl<F: AsFd> Shared<F> {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the waiting lines until none is left.
    fn serve(&self) {
        loop {
            let mut waiting = self.waiting();
            if waiting.lines.is_empty() {
                waiting.remark(self.remark);
            }
            let Some(line) = waiting.lines.pop_front() else {
                waiting.is_served = false;
                self.emptied.notify_all();
                return;
            };
            drop(waiting);
            self.write(&line, Patience::Endless);
            let mut waiting = self.waiting();
            waiting.bytes = waiting.bytes.saturating_sub(line.len());
        }
    }

    /// Writes a line and returns the unwritten rest. A file that cannot be written at all discards
    /// everything: a closed stderr must not end the program.
    fn write<'a>(&self, line: &'a [u8], patience: Patience) -> &'a [u8] {
        let mut rest = line;
        while !rest.is_empty() {
            if !self.is_ready(patience) {
                return rest;
            }
            let piece = rest.get(..PIECE).unwrap_or(rest);
            match rustix::io::write(&self.file, piece) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if matches!(patience, Patience::None) => return rest,
                Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(10)),
                Err(_) => return &[],
            }
        }
        rest
    }

    /// Whether a write of [`PIECE`] bytes would not block, or would fail.
    fn is_ready(&self, patience: Patience) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let timeout = match patience {
            Patience::None => Some(&now),
            Patience::Endless => None,
        };
        loop {
            let mut files = [PollFd::new(&self.file, PollFlags::OUT)];
            match poll(&mut files, timeout) {
                Err(Errno::INTR) => {}
                // The file does not support polling, so it is not a pipe either.
                Err(_) => return true,
                Ok(ready) => return ready > 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, Read, Write, pipe};

    use super::*;

    fn remark(lost: u64) -> String {
        format!("lost {lost}\n")
    }

    fn numbered(number: usize) -> String {
        format!("{number:06} {}\n", "x".repeat(number % 200))
    }

    fn read_all(mut reader: PipeReader) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            text
        })
    }

    #[test]
    fn fs_9_a_pipe_that_nobody_reads_holds_nobody_up() {
        let (reader, writer) = pipe().unwrap();
        let sink = Sink::new(writer, remark);
        // More than the pipe and the queue hold together.
        let count = 20_000;
        for number in 0..count {
            sink.write(&numbered(number));
        }
        assert!(sink.0.waiting().bytes <= ROOM);
        assert!(!sink.flush(Duration::from_millis(50)), "nobody reads");
        let text = read_all(reader);
        assert!(sink.flush(Duration::from_secs(20)));
        sink.write("after\n");
        drop(sink);
        let text = text.join().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let (after, lines) = lines.split_last().unwrap();
        let (lost, lines) = lines.split_last().unwrap();
        assert_eq!(*after, "after");
        assert_eq!(*lost, format!("lost {}", count - lines.len()));
        for (number, line) in lines.iter().enumerate() {
            assert_eq!(format!("{line}\n"), numbered(number));
        }
    }

    #[test]
    fn fs_9_a_slow_reader_gets_every_line_in_order() {
        let (mut reader, writer) = pipe().unwrap();
        let sink = Sink::new(writer, remark);
        let reading = std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut buffer = [0; 1000];
            while let Ok(count) = reader.read(&mut buffer)
                && count > 0
            {
                text.extend_from_slice(&buffer[..count]);
                std::thread::sleep(Duration::from_micros(100));
            }
            String::from_utf8(text).unwrap()
        });
        let mut sent = String::new();
        // Characters of several bytes, and lines longer than a piece.
        let lines = (0..40).map(|number| format!("{}\n", "\u{20ac}".repeat(number * 77)));
        for line in lines {
            sink.write(&line);
            sent.push_str(&line);
        }
        assert!(sink.flush(Duration::from_secs(20)));
        drop(sink);
        assert_eq!(reading.join().unwrap(), sent);
    }

    #[test]
    fn fs_9_lines_are_written_at_once_where_there_is_room() {
        let (mut reader, writer) = pipe().unwrap();
        let sink = Sink::new(writer, remark);
        sink.write("one\n");
        let mut text = [0; 4];
        reader.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"one\n");
        assert!(!sink.0.waiting().is_served, "no thread");
    }

    #[test]
    fn fs_9_a_closed_reader_ends_the_waiting() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(&[b'x'; 64 << 10]).unwrap();
        let sink = Sink::new(writer, remark);
        sink.write("waits\n");
        assert!(!sink.flush(Duration::from_millis(20)));
        drop(reader);
        assert!(sink.flush(Duration::from_secs(20)));
    }
}
