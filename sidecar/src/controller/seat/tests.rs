use sidecar_testkit::FakeApi;
use sidecar_testkit::build::csinode;
use tokio::time::timeout;

use super::*;
use crate::controller::flags::Http;
use crate::flags::standard::{HTTP_ENDPOINT, KUBE_API, LEADER_ELECTION, LOGGING};
use crate::flags::{Dialect, Spec, parse, retired};
use crate::kube::cache::{Cache, Record};
use crate::kube::connect::Variable;
use crate::kube::interner::Interner;
use crate::kube::lean::Parts;
use crate::kube::reflect::Resource;
use crate::metrics::Registry;
use crate::names::LeaseOwner;

const PROGRAM: Program = Program {
    name: "snapshot-controller",
    replaces: "",
    crates: &[],
    owner: LeaseOwner::SnapshotController,
    gates: &[],
    kubeconfig: Variable::Ignored,
    fatal: 1,
};

/// Has no flag for a driver's socket.
static SPEC: Spec = Spec {
    dialect: Dialect::Go,
    tables: &[KUBE_API, LEADER_ELECTION, HTTP_ENDPOINT, LOGGING],
    retired: &retired::NONE,
};

struct Seen;

impl Record for Seen {
    type Wire<'a> = Parts<'a, serde::de::IgnoredAny>;

    fn from_wire(_: Self::Wire<'_>, _: &Interner) -> Option<Self> {
        Some(Self)
    }
}

async fn process(kubeconfig: &std::path::Path) -> (Arc<Process>, Option<Election>) {
    let line = [
        "snapshot-controller".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--leader-election=true".to_owned(),
        "--leader-election-namespace=ns".to_owned(),
    ];
    let values = parse(&SPEC, line).unwrap();
    assert_eq!(Http::from_flags(&values).unwrap(), None);
    let election = Election::from_flags(&values).unwrap();
    (Process::new(&values, PROGRAM).await.unwrap(), election)
}

#[tokio::test]
async fn c_12_a_controller_without_a_driver_leads_and_watches() {
    let api = FakeApi::new();
    api.insert(csinode("n1"));
    let served = api.serve().await;
    let (process, election) = process(&served.kubeconfig()).await;
    let seat = Seat::sole(process, PROGRAM);
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
    let ended = timeout(Duration::from_secs(30), led).await;
    assert_eq!(ended.expect("in time"), Ok(()));
    assert_eq!(cache.len(), 1);
    assert_eq!(held(), ("snapshot-controller-leader".to_owned(), false));
}

/// Two seats of a process; the first one holds the head lease.
async fn two_seats(kubeconfig: &std::path::Path) -> [Seat; 2] {
    let (process, _) = process(kubeconfig).await;
    let tenure = process.tenure().await.unwrap();
    let fences = [tenure.fence.clone(), Fence::default()];
    let seats = ["csi-attacher", "csi-resizer"].into_iter().zip(fences);
    let seats: Vec<Seat> = seats
        .map(|(name, fence)| {
            let program = Program { name, ..PROGRAM };
            let (process, ending) = (Arc::clone(&process), process.shutdown.request());
            let own = ControllerLimits {
                controller: name,
                rate: Rate::Unlimited,
                metrics: RateMetrics::of(name, &Registry::new()).unwrap(),
                flags: Arc::default(),
            };
            Seat::among(process, &tenure, program, &own, (fence, ending))
        })
        .collect();
    seats.try_into().ok().expect("two")
}

#[tokio::test]
async fn a_lost_lease_holds_back_its_own_controller_alone() {
    let api = FakeApi::new();
    let served = api.serve().await;
    let [head, other] = two_seats(&served.kubeconfig()).await;
    let (brief, soon) = (Duration::from_millis(300), Duration::from_secs(20));
    let ask = async |client: &Client, limit: Duration| {
        let api = Api::new(client.clone());
        let asked = crate::kube::discovery::serves(&api, "storage.k8s.io/v1", "CSINode");
        timeout(limit, asked)
            .await
            .is_ok_and(|answer| answer.is_ok())
    };
    let second = other.another_client(Rate::Unlimited);
    assert!(ask(&head.client, soon).await && ask(&other.client, soon).await);
    other.fence.close();
    assert!(!ask(&other.client, brief).await && !ask(&second, brief).await);
    assert!(ask(&head.client, soon).await);
    other
        .fence
        .hold_until(crate::clock::now() + Duration::from_secs(60));
    assert!(ask(&other.client, soon).await);
    // The head lease's fence holds for the connections.
    head.fence.close();
    assert!(
        !ask(&other.client, brief).await,
        "without the head nothing passes"
    );
    let agents = api.requests().into_iter().map(|request| request.user_agent);
    let agents: Vec<_> = agents
        .map(|agent| agent.split('/').next().map(str::to_owned))
        .collect();
    let expected = ["csi-attacher", "csi-resizer", "csi-attacher", "csi-resizer"];
    assert_eq!(agents, expected.map(|agent| Some(agent.to_owned())));
}

#[tokio::test]
async fn seats_that_begin_together_share_one_list_and_one_watch() {
    let api = FakeApi::new();
    api.allow_streaming_lists();
    api.insert(csinode("n1"));
    let served = api.serve().await;
    let [one, other] = two_seats(&served.kubeconfig()).await;
    let nodes = Resource::new("storage.k8s.io", "v1", "csinodes");
    let caches = [(); 2].map(|()| Cache::<Seen>::new(Interner::default(), |_| {}));
    let watches = caches
        .each_ref()
        .map(|cache| -> [Watch; 1] { [Watch::all(nodes.clone(), cache)] });
    let both = async {
        for watches in &watches {
            watch::ready(watches).await;
        }
    };
    tokio::select! {
        never = one.watch(&watches[0]) => match never {},
        never = other.watch(&watches[1]) => match never {},
        ready = timeout(Duration::from_secs(20), both) => ready.unwrap(),
    }
    assert_eq!(caches.map(|cache| cache.len()), [1, 1]);
    let asked = api.requests_to("GET", "/apis/storage.k8s.io/v1/csinodes");
    assert_eq!(asked.len(), 1, "one stream that begins with a list");
}
