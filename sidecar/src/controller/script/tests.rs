use csi_proto::csi::{ControllerUnpublishVolumeRequest, DeleteVolumeRequest};
use serde_json::json;

use super::*;
use crate::controller::Call as OneOf;
use crate::controller::request::{Ask as _, Body};
use crate::refusal::Refusal;
use crate::rpc_code::RpcError;
use crate::secret::SecretRef;
use crate::text::Text;
use call::{Call, Called};

struct Controller;

#[expect(
    unreachable_pub,
    dead_code,
    reason = "the macro is for the crates of controllers"
)]
mod call {
    use super::*;

    crate::calls! {
        Detach(ControllerUnpublishVolumeRequest),
        Delete(DeleteVolumeRequest),
    }
}

impl Requests for Controller {
    type Object = Text;
    type Found = ();
    type Purpose = &'static str;
    type Secret = SecretRef;
    type Calls = Call;
    type Event = &'static str;
}

type Attempt = Log<Controller>;

fn error(refusal: Refusal) -> ApiError {
    let message = "no".to_owned();
    ApiError { message, refusal }
}

fn write(purpose: &'static str) -> Write<Controller> {
    Write {
        purpose,
        object: "claim".into(),
        uid: None,
        body: Body::Create(json!({})),
    }
}

fn written(purpose: &'static str, refusal: Option<Refusal>) -> Reply<Controller> {
    let result = refusal.map_or(Ok(()), |refusal| Err(error(refusal)));
    Reply::Write(write(purpose), result)
}

fn read(object: &str, refusal: Option<Refusal>) -> Reply<Controller> {
    let result = refusal.map_or(Ok(()), |refusal| Err(error(refusal)));
    Reply::Get(object.into(), result)
}

fn log(replies: impl IntoIterator<Item = Reply<Controller>>) -> Attempt {
    Log(replies.into_iter().collect())
}

/// The next object to read.
fn reads(log: &Attempt, in_doubt: &[Text]) -> Option<Text> {
    match log.read::<()>(in_doubt) {
        Err(Leave::Ask(request)) => {
            let Request::Get(object) = *request else {
                unreachable!("it asks for nothing else")
            };
            Some(object)
        }
        Err(Leave::End(())) => unreachable!("it does not end"),
        Ok(_) => None,
    }
}

/// Whether the script waits for a reply.
fn asks<T>(flow: Flow<T, Controller, ()>) -> bool {
    matches!(flow, Err(Leave::Ask(_)))
}

#[test]
fn what_is_in_doubt_is_read_once() {
    let in_doubt: [Text; 2] = ["claim".into(), "volume".into()];
    let mut log = log([]);
    for object in &in_doubt {
        assert_eq!(reads(&log, &in_doubt).as_ref(), Some(object));
        log.push(read(object, None));
    }
    assert_eq!(reads(&log, &in_doubt), None);
    assert!(matches!(log.read::<()>(&in_doubt), Ok(Ok(()))));
    log.push(read("volume", Some(Refusal::Other)));
    let failed = log.read::<()>(&in_doubt);
    assert!(matches!(failed, Ok(Err(failed)) if *failed == error(Refusal::Other)));
}

#[test]
fn a_write_is_decided_anew_after_a_conflict_but_not_for_ever() {
    let mut log = log([]);
    for conflict in 1..=CONFLICTS {
        log.push(written("mark", Some(Refusal::Conflict)));
        assert_eq!(reads(&log, &[]).as_deref(), Some("claim"), "{conflict}");
        assert!(log.written(&"mark").is_none(), "{conflict}");
        assert!(log.refused().is_none(), "{conflict}");
        log.push(read("claim", None));
        assert_eq!(reads(&log, &[]), None, "{conflict}");
    }
    log.push(written("mark", Some(Refusal::Conflict)));
    assert_eq!(reads(&log, &[]), None);
    let refused: Vec<_> = log.writes().map(|(write, _)| write.purpose).collect();
    assert_eq!(refused, ["mark"], "the last one alone counts");
    assert!(matches!(log.written(&"mark"), Some(Err(error)) if error.is_conflict()));
    assert!(matches!(log.refused(), Some((_, error)) if error.is_conflict()));
    log.push(read("claim", None));
    assert!(log.refused().is_none(), "it is not the last request");
}

#[test]
fn what_happens_once_is_found_by_its_purpose() {
    let mut log = log([written("record", Some(Refusal::Other))]);
    assert!(asks(log.once(write("grow"))));
    log.push(written("grow", None));
    assert!(!asks(log.once(write("grow"))));
    assert!(asks(log.once(write("record"))), "that was not written");
    assert_eq!((log.times(&"grow"), log.times(&"record")), (1, 0));
    assert!(log.written(&"grow").unwrap().is_ok());
    assert!(log.written(&"record").unwrap().is_err());
}

#[test]
fn what_an_object_does_not_keep_is_written_so_many_times() {
    let mut log = log([]);
    let marks = |log: &Attempt, write| match log.mark(write, 2, || "ignored") {
        Ok(()) => "kept",
        Err(Leave::Ask(_)) => "asks",
        Err(Leave::End(end)) => end,
    };
    log.push(written("mark", Some(Refusal::Other)));
    log.push(written("mark", Some(Refusal::Conflict)));
    for expected in ["asks", "asks", "ignored"] {
        assert_eq!(marks(&log, Some(write("mark"))), expected);
        assert_eq!(marks(&log, None), "kept");
        log.push(written("mark", None));
    }
    assert_eq!(marks(&log, Some(write("other"))), "asks");
}

#[test]
fn a_purpose_is_tried_whatever_came_of_it() {
    for refusal in [None, Some(Refusal::Other), Some(Refusal::Conflict)] {
        let log = log([written("record", refusal)]);
        assert!(log.tried(&"record") && !log.tried(&"mark"));
    }
}

#[test]
fn the_last_read_of_an_object_counts() {
    let log = log([
        read("a", Some(Refusal::NotFound)),
        read("b", None),
        read("a", None),
    ]);
    assert!(log.got(&"a".into()).unwrap().is_ok());
    assert!(log.got(&"c".into()).is_none());
}

#[test]
fn what_was_read_counts_until_a_write_may_have_changed_it() {
    let found = |replies: Vec<Reply<Controller>>| {
        let log = log(replies);
        log.found(&"claim".into()).map(|found| found.is_ok())
    };
    assert_eq!(found(vec![read("volume", None)]), None);
    assert_eq!(
        found(vec![read("claim", Some(Refusal::NotFound))]),
        Some(false)
    );
    for (refusal, expected) in [
        (None, None),
        (Some(Refusal::Unknown), None),
        (Some(Refusal::Conflict), Some(true)),
        (Some(Refusal::Other), Some(true)),
    ] {
        let replies = vec![read("claim", None), written("mark", refusal)];
        assert_eq!(found(replies), expected, "{refusal:?}");
    }
    let read_again = vec![written("mark", None), read("claim", None)];
    assert_eq!(found(read_again), Some(true));
}

#[test]
fn an_event_is_sent_once() {
    let mut log = log([]);
    for (event, asked) in [("a", true), ("a", false), ("b", true), ("a", false)] {
        assert_eq!(asks(log.tell(event)), asked, "{event}");
        log.push(Reply::Event(event));
        log.push(written("mark", None));
    }
}

#[test]
fn a_secret_is_read_anew_if_another_one_is_named() {
    let named = |name: &str| SecretRef {
        namespace: "ns".into(),
        name: name.into(),
    };
    let log = log([
        Reply::Secret(named("a"), Ok([("user".into(), "x".into())].into())),
        Reply::Secret(named("b"), Err(SecretError::NotText)),
    ]);
    assert!(matches!(log.secret::<()>(named("a")), Ok(Ok(values)) if values["user"] == "x"));
    assert!(matches!(
        log.secret::<()>(named("b")),
        Ok(Err((of, SecretError::NotText))) if *of == named("b")
    ));
    assert!(asks(log.secret(named("c"))));
    assert!(matches!(log.secret::<()>(None::<SecretRef>), Ok(Ok(values)) if values.is_empty()));
}

#[test]
fn the_response_to_a_call_has_the_type_of_the_call() {
    let delete = OneOf::from(DeleteVolumeRequest {
        volume_id: "h1".to_owned(),
        ..DeleteVolumeRequest::default()
    });
    let called = Called::Delete(delete, Ok(Default::default()));
    let log = log([Reply::Call(called, std::time::Duration::ZERO)]);
    assert!(
        log.called::<OneOf<ControllerUnpublishVolumeRequest>>()
            .is_none()
    );
    let (call, result) = log.called::<OneOf<DeleteVolumeRequest>>().unwrap();
    assert_eq!((&*call.volume_id, result.is_ok()), ("h1", true));
    assert_eq!(log.calls().count(), 1);
}

#[test]
fn what_the_next_attempt_must_read() {
    let before: [Text; 1] = ["volume".into()];
    type Row = (
        &'static str,
        Vec<Reply<Controller>>,
        &'static [&'static str],
    );
    let rows: [Row; 8] = [
        ("nothing came of it", vec![], &["volume"]),
        ("read", vec![read("volume", None)], &[]),
        (
            "not there",
            vec![read("volume", Some(Refusal::NotFound))],
            &[],
        ),
        (
            "unreadable",
            vec![read("volume", Some(Refusal::Other))],
            &["volume"],
        ),
        (
            "written",
            vec![read("volume", None), written("mark", None)],
            &[],
        ),
        (
            "no answer",
            vec![
                read("volume", None),
                written("mark", Some(Refusal::Unknown)),
            ],
            &["claim"],
        ),
        (
            "conflict",
            vec![written("mark", Some(Refusal::Conflict))],
            &["volume", "claim"],
        ),
        (
            "read after it",
            vec![
                written("mark", Some(Refusal::Conflict)),
                read("claim", None),
                read("volume", None),
            ],
            &[],
        ),
    ];
    for (row, replies, expected) in rows {
        let in_doubt = log(replies).in_doubt(&before);
        let in_doubt: Vec<&str> = in_doubt.iter().map(|object| &**object).collect();
        assert_eq!(in_doubt, expected, "{row}");
    }
}

#[test]
fn the_end_of_a_script_is_the_end_of_its_attempt() {
    let ends: [Flow<u8, Controller, u8>; 2] = [Ok(1), Err(2.into())];
    for (flow, expected) in ends.into_iter().zip(1..) {
        assert!(matches!(next(flow), Err(end) if end == expected));
    }
    let asks: Flow<u8, Controller, u8> = ask(Request::Event("a"));
    assert!(matches!(next(asks), Ok(Request::Event("a"))));
}

/// Lines of the log at `-v=5`.
#[test]
fn a_step_is_one_line_without_secrets() {
    let reference = SecretRef {
        namespace: "ns".into(),
        name: "es".into(),
    };
    let values = [("user".to_owned(), "hidden".to_owned())].into();
    let delete = || OneOf::from(DeleteVolumeRequest::default());
    let code = tonic::Code::Internal;
    let message = "boom".to_owned();
    let failed = CallError::Failed(RpcError { code, message });
    let took = std::time::Duration::from_millis(7);
    let rows = [
        (read("claim", None), r#"GET "claim": done"#),
        (read("claim", Some(Refusal::Other)), r#"GET "claim": no"#),
        (written("mark", None), r#""mark" of "claim": done"#),
        (
            written("mark", Some(Refusal::Conflict)),
            r#""mark" of "claim": no"#,
        ),
        (
            Reply::Secret(reference.clone(), Ok(values)),
            "GET Secret ns/es: done",
        ),
        (
            Reply::Secret(reference.clone(), Err(SecretError::NotText)),
            "GET Secret ns/es: a value is not text",
        ),
        (
            Reply::Secret(reference, Err(SecretError::Unread(error(Refusal::Other)))),
            "GET Secret ns/es: no",
        ),
        (
            Reply::Call(Called::Delete(delete(), Ok(Default::default())), took),
            "Delete, after 7ms: done",
        ),
        (
            Reply::Call(Called::Delete(delete(), Err(failed)), took),
            "Delete, after 7ms: rpc error: code = Internal desc = boom",
        ),
        (Reply::Event("told"), r#""told": done"#),
    ];
    for (reply, line) in rows {
        assert_eq!(Request::line(&reply), line);
    }
}
