//! Rows about the end of the process.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rustix::process::Signal;
use sidecar_testkit::FakeDriver;
use sidecar_testkit::process::within;

use crate::process::{self, NAME, Serving, as_init, csi_address, signal_to, until};
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

#[tokio::test]
async fn l_26_sigterm_as_process_1() {
    for connected in [true, false] {
        let driver = FakeDriver::new(NAME);
        if connected {
            driver.start();
        }
        let address = process::free_address();
        let mut flags = csi_address(&driver);
        flags.push(program::flag(&format!("--http-endpoint={address}")));
        let Some((mut process, id)) = as_init(&process::program(), &flags).await else {
            return;
        };
        if connected {
            process::listening(&mut process, &address).await;
        } else {
            until("a word", async || !process.log().is_empty()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        signal_to(id, Signal::TERM);
        within(Duration::from_secs(10), "a prompt end", async || {
            !process.is_running()
        })
        .await;
        process.ended().await.with_code(2);
    }
}
