use std::collections::{BTreeMap, BTreeSet};

use csi_proto::csi::volume_capability::access_mode::Mode;

use super::*;
use crate::model::volume::Attachment;
use crate::plan::testing::{block, mount, policy, put, segments, state, volume};

const STAGING: &str = "/staging/v1";

fn attached() -> Volume {
    let mut volume = volume("v1", 1);
    volume.attachments.insert(
        "n1".to_owned(),
        Attachment {
            readonly: false,
            access_mode: 1,
        },
    );
    volume
}

fn staged() -> Volume {
    let mut volume = attached();
    volume
        .staged
        .insert("n1".to_owned(), BTreeSet::from([STAGING.to_owned()]));
    volume
}

fn published(mode: Mode) -> Volume {
    let state = state([put(staged())]);
    publish_in(&state, &publish_request("/pods/1", mode))
        .unwrap()
        .volume
}

fn stage_request() -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest {
        volume_id: "v1".to_owned(),
        staging_target_path: STAGING.to_owned(),
        volume_capability: Some(mount(Mode::SingleNodeWriter)),
        ..Default::default()
    }
}

fn publish_request(target: &str, mode: Mode) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest {
        volume_id: "v1".to_owned(),
        staging_target_path: STAGING.to_owned(),
        target_path: target.to_owned(),
        volume_capability: Some(mount(mode)),
        ..Default::default()
    }
}

fn with_here<T>(f: impl FnOnce(Here<'_>) -> T) -> T {
    f(Here {
        id: "n1",
        topology: &segments("zone=a"),
    })
}

fn stage_in(state: &State, request: &csi::NodeStageVolumeRequest) -> Result<Outcome, Code> {
    with_here(|here| stage(state, &policy(), here, request).map_err(|error| error.code))
}

fn publish_in(state: &State, request: &csi::NodePublishVolumeRequest) -> Result<Outcome, Code> {
    with_here(|here| publish(state, &policy(), here, request).map_err(|error| error.code))
}

#[test]
fn staging_needs_the_volume_here_and_is_idempotent() {
    let first = stage_in(&state([put(attached())]), &stage_request()).unwrap();
    assert!(!first.repeated);
    let again = stage_in(&state([put(first.volume.clone())]), &stage_request()).unwrap();
    assert_eq!(
        again,
        Outcome {
            repeated: true,
            ..first
        }
    );

    assert_eq!(
        stage_in(&State::default(), &stage_request()),
        Err(Code::NotFound)
    );
    let not_attached = state([put(volume("v1", 1))]);
    assert_eq!(
        stage_in(&not_attached, &stage_request()),
        Err(Code::FailedPrecondition)
    );
    let mut elsewhere = attached();
    elsewhere.topology = vec![segments("zone=b")];
    assert_eq!(
        stage_in(&state([put(elsewhere)]), &stage_request()),
        Err(Code::FailedPrecondition)
    );
    for change in [
        (|r| r.volume_id.clear()) as fn(&mut csi::NodeStageVolumeRequest),
        |r| r.staging_target_path.clear(),
        |r| r.volume_capability = None,
        |r| r.volume_capability = Some(block(Mode::SingleNodeWriter)),
    ] {
        let mut request = stage_request();
        change(&mut request);
        assert_eq!(
            stage_in(&state([put(attached())]), &request),
            Err(Code::InvalidArgument)
        );
    }
}

#[test]
fn publishing_needs_staging_and_is_idempotent() {
    let writer = Mode::SingleNodeWriter;
    let request = publish_request("/pods/1", writer);
    assert_eq!(
        publish_in(&state([put(attached())]), &request),
        Err(Code::FailedPrecondition)
    );
    let published = published(writer);
    let state = state([put(published.clone())]);
    let again = publish_in(&state, &request).unwrap();
    assert_eq!(
        again,
        Outcome {
            volume: published,
            repeated: true
        }
    );
    let mut readonly = request.clone();
    readonly.readonly = true;
    assert_eq!(publish_in(&state, &readonly), Err(Code::AlreadyExists));
    let second = publish_in(&state, &publish_request("/pods/2", writer)).unwrap();
    assert_eq!(second.volume.published["n1"].len(), 2);
}

#[test]
fn a_single_writer_excludes_other_pods_of_the_node() {
    let state = state([put(published(Mode::SingleNodeSingleWriter))]);
    for mode in [Mode::SingleNodeSingleWriter, Mode::SingleNodeMultiWriter] {
        let second = publish_in(&state, &publish_request("/pods/2", mode));
        assert_eq!(second, Err(Code::FailedPrecondition));
    }
}

#[test]
fn unstaging_waits_for_the_last_unpublish() {
    let request = csi::NodeUnstageVolumeRequest {
        volume_id: "v1".to_owned(),
        staging_target_path: STAGING.to_owned(),
    };
    let unstage = |state: &State| {
        with_here(|here| unstage(state, &policy(), here, &request).map_err(|error| error.code))
    };
    let used = state([put(published(Mode::SingleNodeWriter))]);
    assert_eq!(unstage(&used), Err(Code::FailedPrecondition));
    let free = unstage(&state([put(staged())])).unwrap().unwrap();
    assert!(!free.in_use_on_nodes());
    assert_eq!(unstage(&State::default()), Ok(None));
}

fn inline_request(context: &[(&str, &str)]) -> csi::NodePublishVolumeRequest {
    let mut request = publish_request("/pods/1", Mode::SingleNodeWriter);
    request.staging_target_path.clear();
    let pairs = context
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    request.volume_context = pairs.collect::<BTreeMap<String, String>>();
    request
}

#[test]
fn an_inline_volume_is_made_and_goes_with_its_pod() {
    let inline = inline_request(&[(EPHEMERAL_KEY, "true"), (SIZE_KEY, "2Mi")]);
    let made = publish_in(&State::default(), &inline).unwrap().volume;
    assert_eq!(
        (made.ephemeral, made.capacity, made.phase),
        (true, 2 << 20, Phase::Creating)
    );
    let request = csi::NodeUnpublishVolumeRequest {
        volume_id: "v1".to_owned(),
        target_path: "/pods/1".to_owned(),
    };
    let gone = with_here(|here| {
        unpublish(&state([put(made)]), here, &request)
            .unwrap()
            .unwrap()
    });
    assert_eq!(gone.phase, Phase::Deleting);
    let kept = state([put(published(Mode::SingleNodeWriter))]);
    let kept = with_here(|here| unpublish(&kept, here, &request).unwrap().unwrap());
    assert_eq!((kept.phase, kept.published.len()), (Phase::Ready, 0));
}

#[test]
fn an_inline_volume_with_a_bad_size_is_refused() {
    for (size, code) in [
        ("much", Code::InvalidArgument),
        ("-1", Code::InvalidArgument),
        ("0", Code::InvalidArgument),
        ("2Ti", Code::OutOfRange),
    ] {
        let request = inline_request(&[(EPHEMERAL_KEY, "true"), (SIZE_KEY, size)]);
        assert_eq!(publish_in(&State::default(), &request), Err(code), "{size}");
    }
    let not_inline = inline_request(&[(EPHEMERAL_KEY, "false")]);
    assert_eq!(
        publish_in(&State::default(), &not_inline),
        Err(Code::NotFound)
    );
}
