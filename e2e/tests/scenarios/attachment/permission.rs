//! A service account without permissions.

use anyhow::{Result, ensure};
use e2e::cluster::Cluster;
use e2e::controller::{ATTACHER, Controller, Route};
use e2e::node::Seat;
use e2e::program;
use e2e::suite::Verdict;

use super::scene::{SOON, skipped};

pub(super) fn named(cluster: &Cluster) -> Result<Verdict> {
    if let Some(skipped) = skipped() {
        return Ok(skipped);
    }
    if program::is_foreign(&program::attacher()?)? {
        return Ok(Verdict::Skipped("only ours names the rules".to_owned()));
    }
    let seat = Seat::controller(cluster, "poor.attach.test")?;
    let attacher = Controller::powerless(cluster, ATTACHER, &seat)?;
    let _driver = seat.start_driver(&["--role=controller", "--enable-attach=true"])?;
    let mut attacher = attacher.start("0", Route::Direct, &[])?;
    for rule in [
        r#"{apiGroups: ["storage.k8s.io"], resources: ["volumeattachments"], verbs: ["get", "list", "watch", "patch"]}"#,
        r#"{apiGroups: ["storage.k8s.io"], resources: ["volumeattachments/status"], verbs: ["patch"]}"#,
        r#"{apiGroups: [""], resources: ["persistentvolumes"], verbs: ["get", "list", "watch", "patch"]}"#,
        r#"{apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: ["list", "watch"]}"#,
    ] {
        attacher.logs(SOON, &rule.replace('"', "\\\""))?;
    }
    attacher.must_run()?;
    ensure!(
        !attacher.log().contains("panicked"),
        "it does not panic\n{}",
        attacher.tail()
    );
    Ok(Verdict::Passed)
}
