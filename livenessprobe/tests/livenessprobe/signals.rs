//! Rows about the end of the process.

use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;
use sidecar_testkit::FakeDriver;

use crate::process::{self, NAME, Serving, as_init, signal_to, until, usual_flags};
use crate::program;

#[tokio::test]
async fn l_26_sigterm_kills() {
    let driver = process::driver();
    let mut serving = Serving::beside(&driver, &[]).await;
    serving.is_healthy().await;
    serving.process.signal(Signal::TERM);
    let end = serving.process.ended().await;
    assert_eq!(end.status.signal(), Some(Signal::TERM.as_raw()));
    // While it waits for the driver as well.
    let driver = FakeDriver::new(NAME);
    let mut process = process::start(&driver, &[]);
    until("a word", async || !process.log().is_empty()).await;
    process.signal(Signal::TERM);
    let end = process.ended().await;
    assert_eq!(end.status.signal(), Some(Signal::TERM.as_raw()));
}

/// Whether the signal reaches the process as process 1, to which the kernel delivers none without a handler.
fn handles_sigterm(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask & (1_u64 << (Signal::TERM.as_raw() - 1)) != 0)
}

#[tokio::test]
async fn l_26_sigterm_as_process_1() {
    for connected in [true, false] {
        let driver = FakeDriver::new(NAME);
        if connected {
            driver.start();
        }
        let address = process::free_address();
        let mut flags = usual_flags(&driver);
        flags.push(program::flag(&format!("--http-endpoint={address}")));
        let Some((mut process, id)) = as_init(&process::program(), &flags).await else {
            return;
        };
        if connected {
            process::listening(&mut process, &address).await;
        }
        until("its handler", async || handles_sigterm(id)).await;
        signal_to(id, Signal::TERM);
        process.ended().await.with_code(2);
    }
}
