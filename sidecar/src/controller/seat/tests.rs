use sidecar_testkit::FakeApi;
use sidecar_testkit::build::csinode;
use tokio::time::timeout;

use super::*;
use crate::controller::flags::Http;
use crate::flags::standard::{HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING};
use crate::flags::{Dialect, Spec, parse};
use crate::kube::cache::{Cache, Record};
use crate::kube::connect::Variable;
use crate::kube::interner::Interner;
use crate::kube::lean::Parts;
use crate::kube::reflect::Resource;
use crate::names::LeaseOwner;

const PROGRAM: Program = Program {
    name: "snapshot-controller",
    version: None,
    crates: &[],
    owner: LeaseOwner::SnapshotController,
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Without an address or a socket of a driver.
static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[KUBE_API, LEADER_ELECTION, HTTP_ENDPOINT, LOGGING],
};

struct Seen;

impl Record for Seen {
    type Wire<'a> = Parts<'a, serde::de::IgnoredAny>;

    fn from_wire(_: Self::Wire<'_>, _: &Interner) -> Option<Self> {
        Some(Self)
    }
}

async fn seat(kubeconfig: &std::path::Path) -> (Seat, Option<Election>) {
    let line = [
        "snapshot-controller".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-election=true".to_owned(),
        "--leader-election-namespace=ns".to_owned(),
    ];
    let values = parse(&SPEC, line).unwrap();
    assert_eq!(Http::from_flags(&values).unwrap(), None);
    let election = Election::from_flags(&values).unwrap();
    let process = Process::new(&values, PROGRAM).await.unwrap();
    (Seat::sole(process, PROGRAM), election)
}

#[tokio::test]
async fn c_12_a_controller_without_a_driver_leads_and_watches() {
    let api = FakeApi::new();
    api.insert(csinode("n1"));
    let served = api.serve().await;
    let (seat, election) = seat(&served.kubeconfig()).await;
    let nodes = Resource::new("storage.k8s.io", "v1", "csinodes");
    let cache: Cache<Seen> = Cache::new(Interner::default(), |_| {});
    let held = || {
        let leases = api.objects("leases");
        let lease = leases.first().expect("there is a lease");
        let name = lease["metadata"]["name"].as_str().unwrap().to_owned();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        (name, !holder.is_empty())
    };
    let work = async || {
        let watches: [Watch; 1] = [Watch::all(nodes, &cache)];
        tokio::select! {
            never = seat.watch(&watches) => match never {},
            () = watch::ready(&watches) => {}
        }
        assert_eq!(held(), ("snapshot-controller-leader".to_owned(), true));
        Ok(())
    };
    let led = seat.lead(election.as_ref(), None, work);
    let ended = timeout(std::time::Duration::from_secs(30), led).await;
    assert_eq!(ended.expect("in time"), Ok(()));
    assert_eq!(cache.len(), 1);
    assert_eq!(held(), ("snapshot-controller-leader".to_owned(), false));
}
