//! Any sequence of outcomes of lists and watches, with the requests counted.

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use proptest::prelude::*;

use super::*;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// Success; a watch lasts for this many milliseconds, and is closed gracefully.
    Lasts(u64),
    /// A watch brings an object and is closed gracefully after this many milliseconds.
    Brings(u64),
    /// The connection breaks after this many milliseconds.
    Breaks(u64),
    /// A refusal with this status; a list gets it between its pages.
    Refused(u16),
    /// 429 and a `Retry-After` of this many seconds.
    Busy(u32),
    /// The watch sends a 410 event after this many milliseconds.
    Expires(u64),
    /// No response within the time limit.
    Hangs,
}

use Outcome::{Breaks, Brings, Busy, Expires, Hangs, Lasts, Refused};

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// The outcomes of each kind of request, in turn and repeated from the first.
#[derive(Clone, Debug)]
struct Script {
    list: Vec<Outcome>,
    stream: Vec<Outcome>,
    watch: Vec<Outcome>,
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    List,
    Page,
    Stream,
    Watch,
}

#[derive(Default)]
struct Server {
    asked: Mutex<Vec<Asked>>,
    version: AtomicUsize,
}

fn body(text: String, after: Duration, broken: bool) -> UnsyncBoxBody<Bytes, std::io::Error> {
    let first = stream::once(async move { Ok(Frame::data(Bytes::from(text))) });
    let last = stream::once(async move {
        sleep(after).await;
        if broken {
            Err(std::io::Error::other("broken"))
        } else {
            Ok(Frame::data(Bytes::new()))
        }
    });
    let frames = futures_util::StreamExt::chain(first, last);
    StreamBody::new(frames).boxed_unsync()
}

fn refused(code: u16, seconds: Option<u32>) -> Answer {
    let status = serde_json::json!({"kind": "Status", "code": code, "reason": "Refused"});
    let mut answer = Response::builder().status(code);
    if let Some(seconds) = seconds {
        answer = answer.header("retry-after", seconds);
    }
    answer
        .body(body(status.to_string(), Duration::ZERO, false))
        .unwrap()
}

impl Server {
    async fn answer(&self, script: &Script, uri: &http::Uri) -> Result<Answer, std::io::Error> {
        let query = uri.query().unwrap_or_default();
        let asked = match (
            query.contains("watch=true"),
            query.contains("sendInitialEvents"),
        ) {
            (true, true) => Asked::Stream,
            (true, false) => Asked::Watch,
            (false, _) if query.contains("continue=") => Asked::Page,
            (false, _) => Asked::List,
        };
        let outcomes = match asked {
            Asked::List | Asked::Page => &script.list,
            Asked::Stream => &script.stream,
            Asked::Watch => &script.watch,
        };
        let number = {
            let mut all = self.asked.lock().unwrap();
            all.push(asked);
            all.iter().filter(|one| **one == asked).count()
        };
        let outcome = outcomes[(number - 1) % outcomes.len()];
        let ms = Duration::from_millis;
        let pages = matches!(asked, Asked::List | Asked::Page);
        let version = 100 + self.version.fetch_add(1, Ordering::Relaxed);
        let object = format!(r#"{{"metadata":{{"name":"n","resourceVersion":"{version}"}}}}"#);
        let initial = if asked == Asked::Stream {
            let end = r#""annotations":{"k8s.io/initial-events-end":"true"},"#;
            format!(
                "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{{end}\"resourceVersion\":\"{version}\"}}}}}}\n"
            )
        } else {
            String::new()
        };
        let (text, after, broken) = match outcome {
            Hangs => {
                sleep(65 * S).await;
                return Err(std::io::Error::other("no answer"));
            }
            Refused(code) => return Ok(refused(code, None)),
            Busy(seconds) => return Ok(refused(429, Some(seconds))),
            Breaks(_) if pages => return Err(std::io::Error::other("broken")),
            Expires(_) if asked == Asked::Page => return Ok(refused(410, None)),
            Lasts(_) | Brings(_) | Expires(_) if pages => {
                let more = query.contains("limit=") && !query.contains("continue=two");
                let token = match asked {
                    Asked::List if more => "one",
                    Asked::Page if more => "two",
                    Asked::List | Asked::Page | Asked::Stream | Asked::Watch => "",
                };
                let page = format!(
                    r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{object}]}}"#
                );
                (page, Duration::ZERO, false)
            }
            Lasts(after) => (initial, ms(after), false),
            Breaks(after) => (initial, ms(after), true),
            Brings(after) => (
                format!("{initial}{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"),
                ms(after),
                false,
            ),
            Expires(after) => {
                sleep(ms(after)).await;
                let gone = r#"{"type":"ERROR","object":{"code":410,"reason":"Expired"}}"#;
                (format!("{initial}{gone}\n"), Duration::ZERO, false)
            }
        };
        Ok(Response::new(body(text, after, broken)))
    }
}

/// Requests of each kind within an hour: first pages of lists, further pages, streamed lists, watches; and
/// whether the cache was complete.
async fn an_hour(script: &Script, relist: bool) -> ([usize; 4], bool) {
    let server = Arc::new(Server::default());
    let (answers, script) = (Arc::clone(&server), Arc::new(script.clone()));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, script) = (Arc::clone(&answers), Arc::clone(&script));
        async move { server.answer(&script, request.uri()).await }
    });
    let client = Client::new(service, "default");
    let world = start_from(&FakeApi::new(), client, None, relist);
    sleep(3600 * S).await;
    let asked = server.asked.lock().unwrap();
    let count = |kind: Asked| asked.iter().filter(|one| **one == kind).count();
    let kinds = [Asked::List, Asked::Page, Asked::Stream, Asked::Watch];
    (kinds.map(count), world.cache.is_synced())
}

/// Maximum number of requests in an hour of growing pauses: 800 ms, doubled up to half a minute.
const ROUNDS: usize = 7 + 3600 / 29;

const GOOD: Outcome = Lasts(100_000);

fn script(list: Outcome, stream: Outcome, watch: Outcome) -> Script {
    Script {
        list: vec![list],
        stream: vec![stream],
        watch: vec![watch],
    }
}

#[tokio::test(start_paused = true)]
async fn e_3_a_refused_watch_is_asked_again_ever_more_rarely_and_a_busy_server_is_not_listed_for_it()
 {
    for relist in [false, true] {
        for watch in [
            Refused(429),
            Busy(1),
            Refused(500),
            Refused(503),
            Breaks(5),
            Hangs,
        ] {
            let ([lists, pages, streams, watches], synced) =
                an_hour(&script(GOOD, Refused(422), watch), relist).await;
            assert!(synced);
            // A broken watch may have missed changes.
            let most = if relist && watch == Breaks(5) {
                ROUNDS
            } else {
                1
            };
            assert!(lists <= most, "{watch:?}: {lists} lists");
            assert!(streams <= most && pages == 2 * lists);
            assert!(watches <= 2 * ROUNDS, "{watch:?}: {watches} watches");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e_11_what_may_be_listed_and_not_watched_is_listed_with_a_back_off() {
    for stream in [Refused(403), Refused(422)] {
        for relist in [false, true] {
            let (asked, synced) = an_hour(&script(GOOD, stream, Refused(403)), relist).await;
            let [lists, _, _, watches] = asked;
            assert!(synced, "it starts");
            assert!((50..=ROUNDS).contains(&lists), "{lists} lists");
            assert!(watches <= ROUNDS, "{watches} watches");
        }
    }
    let (asked, synced) = an_hour(&script(Refused(403), GOOD, GOOD), false).await;
    assert!(synced && asked[0] == 0, "a streamed list is a watch");
}

#[tokio::test(start_paused = true)]
async fn e_5_a_list_whose_token_expires_is_read_in_larger_pages_and_then_at_once() {
    let (asked, synced) = an_hour(&script(Expires(0), Refused(422), GOOD), false).await;
    let [lists, pages, _, _] = asked;
    assert!(synced);
    assert_eq!((lists, pages), (3, 2), "small and large pages, then all");
}

#[tokio::test(start_paused = true)]
async fn e_6_a_watch_that_ends_early_in_good_order_is_opened_again_at_once() {
    let log = crate::log::capture();
    for (watch, expected) in [
        (Lasts(5000), 720),
        (Brings(5000), 720),
        (Lasts(1000), 3600),
        // Once a second.
        (Brings(10), 3600),
    ] {
        for relist in [false, true] {
            let (asked, _) = an_hour(&script(GOOD, watch, watch), relist).await;
            let [_, _, streams, watches] = asked;
            let watches = watches + streams;
            assert!(
                watches.abs_diff(expected) <= expected / 10,
                "{watch:?}: {watches}"
            );
            // Every five minutes, where missed changes matter.
            assert!(streams <= if relist { 14 } else { 1 }, "{streams} lists");
        }
    }
    let said = log.lines();
    let said = { said.iter() }.filter(|line| line.contains("ends watches within seconds"));
    assert!((8..=80).contains(&said.count()), "a line when it repeats");
    let (asked, _) = an_hour(&script(GOOD, GOOD, Lasts(10)), false).await;
    assert!(
        asked[3] <= ROUNDS,
        "it brings nothing: {} watches",
        asked[3]
    );
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(GOOD),
        Just(Lasts(20)),
        Just(Brings(20)),
        Just(Lasts(3000)),
        Just(Breaks(0)),
        Just(Breaks(3000)),
        Just(Refused(429)),
        Just(Refused(403)),
        Just(Refused(410)),
        Just(Refused(422)),
        Just(Refused(500)),
        Just(Busy(1)),
        Just(Busy(20)),
        Just(Expires(0)),
        Just(Expires(3000)),
        Just(Hangs),
    ]
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    proptest::collection::vec(outcome(), 1..4)
}

/// Whether a watch with this outcome may have reported all changes until then.
fn holds(outcome: &Outcome) -> bool {
    matches!(outcome, Lasts(10_000..))
}

/// Whether the outcome allows another request soon.
fn is_news(outcome: &Outcome) -> bool {
    matches!(outcome, Brings(_) | Lasts(1000..))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn e_3_any_sequence_of_lists_and_watches_that_fail_backs_off(
        list in outcomes(),
        stream in outcomes(),
        watch in outcomes(),
        relist in any::<bool>(),
    ) {
        let script = Script { list, stream, watch };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let ([lists, pages, streams, watches], _) = runtime.block_on(an_hour(&script, relist));
        let watched = || script.watch.iter().chain(&script.stream);
        if !watched().any(holds) {
            // Pages follow a refused stream at once.
            prop_assert!(lists <= 2 * ROUNDS, "{lists} lists");
            prop_assert!(streams <= 2 * ROUNDS, "{streams} streamed lists");
        }
        if !watched().any(|one| holds(one) || is_news(one)) {
            prop_assert!(watches <= 2 * ROUNDS, "{watches} watches");
        }
        // Reports and failures alternate: the shortest pause is 400 ms.
        prop_assert!(watches <= 9000, "{watches} watches");
        // Of three outcomes two may fail: each of the two pages is then requested three times, after a pause.
        prop_assert!(pages <= 6 * lists + ROUNDS, "{pages} pages of {lists} lists");
    }
}
