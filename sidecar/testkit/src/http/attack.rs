//! Clients that keep an HTTP server busy, all at once, and a health probe among them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::thread;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::measure::{kept_waiting, kept_waiting_here, memory, stood_still};

/// Number of connections that send nothing.
const IDLE: usize = 200;
/// Number of connections that send the head of a request byte by byte.
const SLOW: usize = 50;
/// Number of connections that send requests as fast as they can and read nothing.
const DEAF: usize = 50;
/// Number of connections that send requests without waiting for responses, and read them.
const PIPELINING: usize = 20;
/// Requests sent in one piece.
const PIPELINED: usize = 10;
/// Pause between two such pieces: a debug build and its driver are kept busy, but not overloaded.
const PIPELINE_PAUSE: Duration = Duration::from_secs(1);
/// Pause of a client whose connection was closed.
const PAUSE: Duration = Duration::from_secs(1);
/// Time of the attack before the first counted probe.
const BUILD_UP: Duration = Duration::from_secs(2);
/// Time of counted probes during the attack.
const LASTING: Duration = Duration::from_secs(6);
/// Interval of probes.
const INTERVAL: Duration = Duration::from_millis(100);
/// kubelet's default time limit of a probe.
const LIMIT: Duration = Duration::from_secs(1);
/// Hard time limit of a probe, and the percentage of probes that may take longer than [`LIMIT`]: other
/// tests run on the same processors. Times in which server or probe waited for a processor, or the machine
/// stalled, do not count.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
const LATE: usize = 10;
/// Maximum growth of the server's memory.
const MEMORY: u64 = 32 << 20;
/// Maximum number of open connections; the program's other files count as well.
const FILES: usize = 550;

/// The attacked server.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its process id.
    pub id: u32,
    /// Its address.
    pub address: String,
    /// A path that responds with 200 while all is well.
    pub health: &'static str,
    /// The path with the largest response.
    pub large: &'static str,
}

impl Target {
    /// Attacks the server for some seconds and probes its health meanwhile, from the same address.
    ///
    /// # Panics
    ///
    /// If probes do not get 200 within a second, or memory or open files exceed their bounds.
    pub async fn withstands(self) {
        let run = tokio::task::spawn_blocking(move || self.attacked());
        if let Err(failed) = run.await {
            std::panic::resume_unwind(failed.into_panic());
        }
    }

    fn attacked(&self) {
        self.probe();
        let before = memory(self.id, "VmHWM");
        let (end, ended) = oneshot::channel::<()>();
        let (address, large, health) = (self.address.clone(), self.large, self.health);
        let attack = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let mut clients = attack(&address, health, large);
                let _ = ended.await;
                clients.shutdown().await;
            });
        });
        thread::sleep(BUILD_UP);
        let start = Instant::now();
        let _none_yet = stood_still(start, start);
        let mut took = Vec::new();
        while start.elapsed() < LASTING {
            took.push(self.probe());
            let files = std::fs::read_dir(format!("/proc/{}/fd", self.id));
            let files = files.expect("the program runs").count();
            assert!(files <= FILES, "{files} open files");
            thread::sleep(INTERVAL);
        }
        drop(end);
        attack.join().expect("the attack ends");
        self.probe();
        let late = took.iter().filter(|took| **took > LIMIT).count();
        assert!(late * 100 <= took.len() * LATE, "{took:?}");
        let grown = memory(self.id, "VmHWM") - before;
        assert!(grown <= MEMORY, "grown by {grown} bytes");
    }

    /// Time until the response. Repeats the probe if the driver's deadline may have passed because the
    /// machine stalled.
    fn probe(&self) -> Duration {
        loop {
            let waits = || kept_waiting(self.id) + kept_waiting_here();
            let (start, before) = (Instant::now(), waits());
            let answer = self.ask();
            let took = start.elapsed();
            let waited = waits().saturating_sub(before);
            let answer = answer.unwrap_or_else(|error| panic!("no answer in {took:?}: {error}"));
            let well = answer.starts_with("HTTP/1.1 200 ");
            if well && took <= LIMIT {
                return took;
            }
            let still = stood_still(start, start + took);
            assert!(well || still > LIMIT / 2, "{answer:?}");
            if well {
                return took.saturating_sub(waited.max(still));
            }
        }
    }

    /// Probes like kubelet: on a new connection.
    fn ask(&self) -> std::io::Result<String> {
        let address: SocketAddr = self.address.parse().expect("an address");
        let mut stream = Blocking::connect_timeout(&address, PROBE_TIMEOUT)?;
        stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
        stream.write_all(request(self.health, "close").as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}

fn request(path: &str, connection: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: {connection}\r\n\r\n")
}

fn attack(address: &str, health: &str, large: &str) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let mut spawn = |count, behaviour: Behaviour, path: &str| {
        for _ in 0..count {
            clients.spawn(client(address.to_owned(), path.to_owned(), behaviour));
        }
    };
    spawn(IDLE, Behaviour::Idle, health);
    spawn(SLOW, Behaviour::Slow, health);
    spawn(DEAF, Behaviour::Deaf, large);
    spawn(PIPELINING, Behaviour::Pipelining, health);
    clients
}

#[derive(Clone, Copy)]
enum Behaviour {
    Idle,
    Slow,
    Deaf,
    Pipelining,
}

/// Reconnects whenever the server closes the connection.
async fn client(address: String, path: String, behaviour: Behaviour) {
    loop {
        if let Ok(stream) = TcpStream::connect(&address).await {
            // Returns when the server has closed the connection.
            let _ = converse(stream, &path, behaviour).await;
        }
        sleep(PAUSE).await;
    }
}

async fn converse(mut stream: TcpStream, path: &str, behaviour: Behaviour) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let many = request(path, "keep-alive").repeat(PIPELINED);
    match behaviour {
        Behaviour::Idle => while stream.read(&mut buffer).await? > 0 {},
        Behaviour::Slow => {
            for byte in request(path, "keep-alive").bytes().cycle() {
                stream.write_all(&[byte]).await?;
                sleep(Duration::from_secs(1)).await;
            }
        }
        Behaviour::Deaf => loop {
            stream.write_all(many.as_bytes()).await?;
        },
        Behaviour::Pipelining => loop {
            stream.write_all(many.as_bytes()).await?;
            let pause = sleep(PIPELINE_PAUSE);
            tokio::pin!(pause);
            loop {
                tokio::select! {
                    () = &mut pause => break,
                    read = stream.read(&mut buffer) => if read? == 0 { return Ok(()) },
                }
            }
        },
    }
    Ok(())
}
