//! The memory of a cached object, and the absence of further memory during a relist.
//!
//! A separate program because it counts every allocated byte. The baseline is 676 bytes per
//! PersistentVolume, measured with a map updated in place and similar records;
//! `kube::runtime::reflector` takes 14,220, and twice that during a relist.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use peak_alloc::PeakAlloc;
use sidecar::controller::watch::{Watch, keep};
use sidecar::kube::cache::{Cache, Record};
use sidecar::kube::feed::Feeds;
use sidecar::kube::interner::Interner;
use sidecar::kube::lean::{Meta, Object, Text, nullable};
use sidecar::kube::reflect::{Resource, Scope};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const VOLUMES: usize = 5_000;
const PAGE: usize = 100;
/// Measured: 356; during relists 404,390 bytes more in pages, 9,860 streamed (x86-64).
const BYTES_PER_VOLUME: usize = 380;

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An attacher's record of a PersistentVolume.
#[expect(dead_code, reason = "kept for its size")]
struct Volume {
    driver: Arc<str>,
    handle: Box<str>,
    fs_type: Arc<str>,
    class: Arc<str>,
    claim_namespace: Arc<str>,
    claim_name: Box<str>,
    attributes: Arc<[Arc<str>]>,
    access_modes: Arc<[Arc<str>]>,
    finalizers: Arc<[Arc<str>]>,
    deleted: bool,
}

#[derive(serde::Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, default, deserialize_with = "nullable")]
    access_modes: Vec<Text<'a>>,
    #[serde(borrow)]
    csi: Csi<'a>,
    #[serde(borrow)]
    claim_ref: Claim<'a>,
    #[serde(borrow)]
    storage_class_name: Text<'a>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Csi<'a> {
    #[serde(borrow)]
    driver: Text<'a>,
    #[serde(borrow)]
    volume_handle: Text<'a>,
    #[serde(borrow)]
    fs_type: Text<'a>,
}

#[derive(serde::Deserialize)]
struct Claim<'a> {
    #[serde(borrow)]
    namespace: Text<'a>,
    #[serde(borrow)]
    name: Text<'a>,
}

impl Object for Wire<'_> {
    fn meta(&self) -> &Meta<'_> {
        &self.metadata
    }
}

impl Record for Volume {
    type Wire<'a> = Wire<'a>;

    fn from_wire(wire: Wire<'_>, strings: &Interner) -> Option<Self> {
        let Wire { metadata, spec } = wire;
        let list = |items: &[Text<'_>]| strings.intern_list(items.iter().map(|item| &**item));
        Some(Self {
            driver: strings.intern(&spec.csi.driver),
            handle: (&*spec.csi.volume_handle).into(),
            fs_type: strings.intern(&spec.csi.fs_type),
            class: strings.intern(&spec.storage_class_name),
            claim_namespace: strings.intern(&spec.claim_ref.namespace),
            claim_name: (&*spec.claim_ref.name).into(),
            attributes: strings.intern_list(["protocol", "nfs"]),
            access_modes: list(&spec.access_modes),
            finalizers: list(&metadata.finalizers),
            deleted: metadata.deletion_timestamp.is_some(),
        })
    }
}

/// About 2.5 KB, much of it `managedFields`, as API servers send it.
fn volume(number: usize, version: usize) -> String {
    let mut fields = String::new();
    for field in 0..24 {
        write!(
            fields,
            r#""f:field-number-{field}":{{".":{{}},"f:inner":{{}}}},"#
        )
        .unwrap();
    }
    let uid = format!("{number:08x}-1111-2222-3333-444455556666");
    format!(
        r#"{{"metadata":{{"name":"pvc-{uid}","uid":"{uid}","resourceVersion":"{version}","creationTimestamp":"2026-01-01T00:00:00Z","annotations":{{"pv.kubernetes.io/provisioned-by":"driver.example.com"}},"finalizers":["external-attacher/driver-example-com","kubernetes.io/pv-protection"],"managedFields":[{{"manager":"csi-provisioner","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{{{fields}"f:end":{{}}}}}}]}},"spec":{{"capacity":{{"storage":"1Gi"}},"accessModes":["ReadWriteOnce"],"claimRef":{{"kind":"PersistentVolumeClaim","namespace":"namespace-{}","name":"data-database-{number}","uid":"{uid}"}},"persistentVolumeReclaimPolicy":"Delete","storageClassName":"fast","volumeMode":"Filesystem","csi":{{"driver":"driver.example.com","volumeHandle":"vol-{uid}","fsType":"ext4","volumeAttributes":{{"storage.kubernetes.io/csiProvisionerIdentity":"1700000000000-8081-driver.example.com"}}}}}},"status":{{"phase":"Bound"}}}}"#,
        number % 200
    )
}

fn whole(status: u16, text: String) -> Response<Body> {
    let body = Full::new(Bytes::from(text)).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

/// A server whose volumes never change, which generates its text on request, and ends each watch at
/// once with 410.
struct Server {
    streams: bool,
    lists: AtomicUsize,
}

impl Server {
    async fn answer(&self, query: &str) -> Response<Body> {
        if query.contains("sendInitialEvents") {
            return if self.streams {
                self.stream()
            } else {
                whole(400, "{}".to_owned())
            };
        }
        if query.contains("watch=true") {
            // The watch lasts this long.
            tokio::time::sleep(Duration::from_secs(60)).await;
            let gone = r#"{"type":"ERROR","object":{"code":410,"reason":"Expired"}}"#;
            return whole(200, format!("{gone}\n"));
        }
        let token = query
            .split_once("continue=")
            .map_or("0", |(_, token)| token);
        self.page(token.parse().unwrap())
    }

    fn page(&self, first: usize) -> Response<Body> {
        let next = first + PAGE;
        let token = if next < VOLUMES {
            next.to_string()
        } else {
            String::new()
        };
        let mut text =
            format!(r#"{{"metadata":{{"resourceVersion":"90000","continue":"{token}"}},"items":["#);
        for number in first..next {
            text += &volume(number, number + 1);
            text += if number + 1 < next { "," } else { "]}" };
        }
        if token.is_empty() {
            self.lists.fetch_add(1, Ordering::Relaxed);
        }
        whole(200, text)
    }

    fn stream(&self) -> Response<Body> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        let line = |kind: &str, object: &str| {
            Ok(Frame::data(Bytes::from(format!(
                "{{\"type\":\"{kind}\",\"object\":{object}}}\n"
            ))))
        };
        let end = r#"{"metadata":{"resourceVersion":"90000","annotations":{"k8s.io/initial-events-end":"true"}}}"#;
        let objects = (0..VOLUMES).map(move |number| line("ADDED", &volume(number, number + 1)));
        let gone = stream::once(async move {
            // The watch lasts this long.
            tokio::time::sleep(Duration::from_secs(60)).await;
            line("ERROR", r#"{"code":410,"reason":"Expired"}"#)
        });
        let body = stream::iter(objects.chain([line("BOOKMARK", end)])).chain(gone);
        Response::new(StreamBody::new(body).boxed_unsync())
    }
}

struct Measured {
    live: usize,
    peak: usize,
}

async fn measure(streams: bool) -> Measured {
    let before = HEAP.current_usage();
    let server = Arc::new(Server {
        streams,
        lists: AtomicUsize::new(0),
    });
    let client = {
        let server = Arc::clone(&server);
        kube::Client::new(
            tower::service_fn(move |request: Request<kube::client::Body>| {
                let server = Arc::clone(&server);
                async move {
                    let query = request.uri().query().unwrap_or_default().to_owned();
                    Ok::<_, Infallible>(server.answer(&query).await)
                }
            }),
            "default",
        )
    };
    let cache = Cache::<Volume>::new(Interner::default(), |_event| {});
    let scope = Scope::all(Resource::new("", "v1", "persistentvolumes"));
    let watch: Watch = Watch::of(scope, &cache);
    let feeds = Feeds::new(client, Duration::ZERO);
    let task = tokio::spawn(async move { keep(&feeds, &[watch]).await });
    cache.synced().await;
    let live = HEAP.current_usage() - before;
    HEAP.reset_peak_usage();
    while server.lists.load(Ordering::Relaxed) < 4 {
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let peak = HEAP.peak_usage() - before;
    assert_eq!(cache.len(), VOLUMES);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    Measured { live, peak }
}

#[tokio::test(start_paused = true)]
async fn an_object_costs_little_and_relists_cost_nothing_more() {
    // The longest text ever held: a page, or one line with the client's buffers.
    let text = volume(0, 1).len();
    for (streams, transient) in [(false, 4 * PAGE * text), (true, 64 * text)] {
        let Measured { live, peak } = measure(streams).await;
        // The client's own task ends only now.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = live / VOLUMES;
        println!(
            "{VOLUMES} volumes of {text} B, streamed: {streams}: {each} B each, \
             {} B more at most in three relists",
            peak - live
        );
        assert!(each <= BYTES_PER_VOLUME, "{each} bytes per volume");
        assert!(
            peak <= live + transient,
            "{} bytes more during relists",
            peak - live
        );
    }
}
