//! Figures of livenessprobe: file size, memory and processor time while idle, time from exec to the HTTP server.
//!
//! `cargo bench --profile tool -p livenessprobe --bench startup` measures `bin/livenessprobe` of `make build`, and next
//! to it the binary that `LIVENESSPROBE` names, if any.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that does not work has nothing better to do than to end"
)]

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sidecar_testkit::FakeDriver;
use sidecar_testkit::http::get;
use sidecar_testkit::measure::{self, Started};

/// Number of health requests before the program is left alone, as many as kubelet makes in some minutes.
const REQUESTS: usize = 20;

fn main() {
    let program = "livenessprobe";
    measure::figures(program, "LIVENESSPROBE", "to HTTP ms", |program| {
        Livenessprobe::new(program)
    });
}

/// A livenessprobe with a driver of its own, from just before exec to its HTTP server.
struct Livenessprobe {
    child: Child,
    took: Duration,
    address: String,
    runtime: tokio::runtime::Runtime,
    _driver: FakeDriver,
}

impl Livenessprobe {
    fn new(program: &Path) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let driver = FakeDriver::new("d.example.com");
        runtime.block_on(async { driver.start() });
        let address = sidecar_testkit::free_address();
        let mut command = Command::new(program);
        command
            .arg(format!("--csi-address={}", driver.socket().display()))
            .arg(format!("--http-endpoint={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let start = Instant::now();
        let child = command.spawn().unwrap();
        while TcpStream::connect(&address).is_err() {
            std::thread::sleep(Duration::from_micros(100));
        }
        Self {
            child,
            took: start.elapsed(),
            address,
            runtime,
            _driver: driver,
        }
    }
}

impl Started for Livenessprobe {
    fn id(&self) -> u32 {
        self.child.id()
    }

    fn took(&self) -> Duration {
        self.took
    }

    /// kubelet's requests.
    fn serve(&self) {
        self.runtime.block_on(async {
            for _ in 0..REQUESTS {
                assert_eq!(get(&self.address, "/healthz").await.status, 200);
            }
        });
    }
}

impl Drop for Livenessprobe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
