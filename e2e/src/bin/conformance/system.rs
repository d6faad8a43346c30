//! The driver under test and the sidecars beside it.

use anyhow::Result;
use e2e::api::Api;
use e2e::cluster::Cluster;
use e2e::controller::{
    ATTACHER, Controller, PROVISIONER, RESIZER, Route, SNAPSHOT_CONTROLLER, SNAPSHOTTER, Sidecar,
    TOGETHER,
};
use e2e::node::Seat;
use e2e::process::Process;
use e2e::program;
use serde_json::json;

use crate::definition::PROVISIONER_FLAGS;
use crate::selection::Present;
use crate::subject::Subject;

/// The driver and its sidecars; empty if the suite starts its own.
#[derive(Default)]
pub(crate) struct System {
    processes: Vec<Process>,
}

impl System {
    pub(crate) fn start(
        cluster: &Cluster,
        api: &Api,
        subject: &Subject,
        present: Present,
    ) -> Result<Self> {
        let snapshots = present.snapshots && subject.has_snapshots();
        if snapshots {
            e2e::snapshots::install(cluster, api)?;
        }
        subject.introduce(cluster, api)?;
        let seat = Seat::new(cluster, 0, &subject.name)?;
        let driver = subject.start(&seat)?;
        let mut registrar = seat.start_registrar(&[])?;
        seat.until_registered(api, &mut registrar)?;
        let mut processes = vec![driver, registrar];
        let controller = Starter {
            cluster,
            api,
            seat: &seat,
        };
        let flags = if subject.has_capacity() {
            &PROVISIONER_FLAGS[..]
        } else {
            &["-v=4"]
        };
        if snapshots {
            processes.push(controller.start(SNAPSHOT_CONTROLLER, &["-v=4"])?);
        }
        let resizer = present.resizer && subject.needs_resizer();
        if program::are_together()? {
            let mut names = "provisioner,attacher".to_owned();
            for (name, is_there) in [("resizer", resizer), ("snapshotter", snapshots)] {
                if is_there {
                    names.extend([",", name]);
                }
            }
            let names = format!("--controllers={names}");
            let flags: Vec<_> = flags.iter().copied().chain([names.as_str()]).collect();
            processes.push(controller.start(TOGETHER, &flags)?);
            return Ok(Self { processes });
        }
        processes.push(controller.start(ATTACHER, &["-v=4"])?);
        processes.push(controller.start(PROVISIONER, flags)?);
        if resizer {
            processes.push(controller.start(RESIZER, &["-v=4"])?);
        }
        if snapshots {
            processes.push(controller.start(SNAPSHOTTER, &["-v=4"])?);
        }
        Ok(Self { processes })
    }

    /// Fails if one of them has ended.
    pub(crate) fn must_run(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(Process::must_run)
    }
}

struct Starter<'a> {
    cluster: &'a Cluster,
    api: &'a Api,
    seat: &'a Seat<'a>,
}

impl Starter<'_> {
    fn start(&self, sidecar: Sidecar, flags: &[&str]) -> Result<Process> {
        let controller = Controller::install(self.cluster, sidecar, self.seat)?;
        if controller.is_under_upstreams_rules()? {
            // Upstream's manifests leave these rights to drivers with such classes.
            let (group, resource) = ("storage.k8s.io", "volumeattributesclasses");
            let classes = json!([{
                "apiGroups": [group], "resources": [resource], "verbs": ["get", "list", "watch"],
            }]);
            controller.allow(self.api, &classes)?;
            controller.until_permitted(self.api, group, resource, "list")?;
        }
        if !sidecar.has_driver && controller.is_under_upstreams_rules()? {
            controller.allow(self.api, &e2e::snapshots::group_rules())?;
            let groups = "groupsnapshot.storage.k8s.io";
            controller.until_permitted(self.api, groups, "volumegroupsnapshots", "list")?;
        }
        let (group, resource) = match sidecar.name {
            "csi-snapshotter" | "snapshot-controller" => {
                ("snapshot.storage.k8s.io", "volumesnapshotcontents")
            }
            _ => ("", "persistentvolumes"),
        };
        controller.until_permitted(self.api, group, resource, "list")?;
        controller.start("0", Route::Direct, flags)
    }
}
