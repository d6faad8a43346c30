use sidecar_testkit::FakeApi;
use sidecar_testkit::api::access::Allow;
use sidecar_testkit::build::csinode;
use tokio::time::Instant;

use super::*;
use crate::kube::interner::Interner;
use crate::kube::lean::Parts;

const S: Duration = Duration::from_secs(1);
const NODES: Resource = Resource::new("storage.k8s.io", "v1", "csinodes");
const ATTACHMENTS: Resource = Resource::new("storage.k8s.io", "v1", "volumeattachments");

struct Seen;

impl Record for Seen {
    type Wire<'a> = Parts<'a, serde::de::IgnoredAny>;

    fn from_wire(_: Self::Wire<'_>, _: &Interner) -> Option<Self> {
        Some(Self)
    }
}

fn cache() -> Cache<Seen> {
    Cache::new(Interner::default(), |_| {})
}

/// A server that forbids listing VolumeAttachments.
fn feeds() -> (FakeApi, Feeds) {
    let api = FakeApi::new();
    api.insert(csinode("n1"));
    api.allow_only([Allow::new("storage.k8s.io", "csinodes", "list,watch")]);
    let feeds = Feeds::new(api.client(), Duration::ZERO);
    (api, feeds)
}

/// Seconds until `ready`, while `watches` are kept; at most a minute.
async fn waits<W>(feeds: &Feeds, watches: &[Watch<W>], ready: impl Future<Output = ()>) -> u64 {
    let start = Instant::now();
    tokio::select! {
        never = keep(feeds, watches) => match never {},
        _ = timeout(60 * S, ready) => start.elapsed().as_secs(),
    }
}

#[tokio::test(start_paused = true)]
async fn work_waits_for_what_it_needs_and_no_longer_than_it_can() {
    let (nodes, attachments) = (cache(), cache());
    let refused = || Watch::all(ATTACHMENTS, &attachments);
    let cases: [(&str, Watch, u64); 5] = [
        ("needed", refused(), 60),
        ("not needed", refused().when(false), 0),
        (
            "needed for a while",
            refused().within(10 * S, "without"),
            10,
        ),
        ("needed to be current", refused().current(), 60),
        ("not waited for", refused().at_once(), 0),
    ];
    for (row, other, expected) in cases {
        let (_api, feeds) = feeds();
        let watches = [Watch::all(NODES, &nodes), other];
        let waited = waits(&feeds, &watches, ready(&watches)).await;
        assert_eq!(waited, expected, "{row}");
        assert_eq!(nodes.len(), 1, "{row}");
    }
}

#[tokio::test(start_paused = true)]
async fn sorts_of_work_wait_each_for_itself() {
    let (nodes, attachments) = (cache(), cache());
    let watches = [
        Watch::all(NODES, &nodes),
        Watch::all(ATTACHMENTS, &attachments).only_for("attach"),
    ];
    for (work, expected) in [("attach", 60), ("other", 0)] {
        let (_api, feeds) = feeds();
        let waited = waits(&feeds, &watches, ready_for(&watches, &work)).await;
        assert_eq!(waited, expected, "{work}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_needed_is_not_asked_for() {
    let (nodes, attachments) = (cache(), cache());
    let (api, feeds) = feeds();
    let watches: [Watch; 2] = [
        Watch::all(NODES, &nodes),
        Watch::all(ATTACHMENTS, &attachments).when(false),
    ];
    waits(&feeds, &watches, sleep(30 * S)).await;
    let asked = api.requests();
    assert!(asked.iter().all(|one| one.path.ends_with("/csinodes")));
    assert!(!asked.is_empty());
}
