//! The connection of one replica to the API server: TCP that can be cut or silenced, and whose bytes are counted.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// Interval at which a connection checks for commands.
const PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Gate {
    silent: AtomicBool,
    /// Number of cuts so far.
    cuts: AtomicU64,
    closed: AtomicBool,
    /// Bytes from the far side.
    bytes: AtomicU64,
}

/// An address that leads to the API server; dropping it closes all connections.
#[derive(Debug)]
pub struct Link {
    gate: Arc<Gate>,
    port: u16,
}

impl Link {
    /// Listens on the loop-back interface for connections to `target`.
    ///
    /// # Errors
    /// No free port, or the thread cannot be started.
    pub fn to(target: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let gate = Arc::new(Gate::default());
        let (shared, target) = (Arc::clone(&gate), target.to_owned());
        let thread = thread::Builder::new().name("link".to_owned());
        thread
            .spawn(move || accept(&listener, &target, &shared))
            .context("cannot start a thread")?;
        Ok(Self { gate, port })
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Silently drops everything from now on, or lets everything pass again.
    pub fn silence(&self, silent: bool) {
        self.gate.silent.store(silent, Ordering::Relaxed);
    }

    /// Number of bytes from `target` that were passed on so far.
    pub fn bytes(&self) -> u64 {
        self.gate.bytes.load(Ordering::Relaxed)
    }

    /// Closes all connections.
    pub fn cut(&self) {
        self.gate.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.gate.closed.store(true, Ordering::Relaxed);
        self.cut();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn accept(listener: &TcpListener, target: &str, gate: &Arc<Gate>) {
    for near in listener.incoming() {
        if gate.closed.load(Ordering::Relaxed) {
            return;
        }
        let joined = near.and_then(|near| {
            let far = TcpStream::connect(target)?;
            for stream in [&near, &far] {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PERIOD))?;
            }
            let back = (far.try_clone()?, near.try_clone()?, true);
            Ok([(near, far, false), back])
        });
        // Without an API server, the client's connection is closed.
        for (from, to, is_back) in joined.into_iter().flatten() {
            let gate = Arc::clone(gate);
            let thread = thread::Builder::new().name("link".to_owned());
            let _ = thread.spawn(move || pump(from, to, &gate, is_back));
        }
    }
}

/// Copies until one side closes or all connections are cut.
fn pump(mut from: TcpStream, mut to: TcpStream, gate: &Gate, is_back: bool) {
    let cuts = gate.cuts.load(Ordering::Relaxed);
    let is_cut = || gate.cuts.load(Ordering::Relaxed) != cuts;
    let mut buffer = vec![0; 1 << 16];
    while !is_cut() {
        if gate.silent.load(Ordering::Relaxed) {
            thread::sleep(PERIOD);
            continue;
        }
        let read = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if is_no_end(error.kind()) => continue,
            Err(_) => break,
        };
        // Bytes that were read before the silence began must not pass either.
        while gate.silent.load(Ordering::Relaxed) && !is_cut() {
            thread::sleep(PERIOD);
        }
        let bytes = buffer.get(..read).unwrap_or_default();
        if is_cut() || to.write_all(bytes).is_err() {
            break;
        }
        if is_back {
            gate.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Whether a read merely timed out.
fn is_no_end(error: ErrorKind) -> bool {
    let passing = [
        ErrorKind::WouldBlock,
        ErrorKind::TimedOut,
        ErrorKind::Interrupted,
    ];
    passing.contains(&error)
}
