#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "anything else is a failed test"
)]

mod secrets;

use std::time::Duration;

use csi_proto::csi::DeleteVolumeResponse;
use serde_json::Value;
use sidecar::controller::Calls as _;
use sidecar::node_selector::Term;
use tonic::Code;

use super::*;
use crate::model::{Attachment, ClaimRef, Class, Csi, FinalizerDue, InTree, SecretRef};
use crate::plan::outcome::{ApiError, Refusal, RpcError};
use crate::plan::request::{Request, Secrets};
use crate::testing::{Known, driver, provisioner};

const F: &str = VOLUME_FINALIZER;
const PROTECTION: &str = "kubernetes.io/pv-protection";

fn owner(provisioned_by: Option<&str>, migrated_to: Option<&str>, csi: Option<&str>) -> Owner {
    Owner {
        provisioned_by: provisioned_by.map(Into::into),
        migrated_to: migrated_to.map(Into::into),
        csi_driver: csi.map(Into::into),
        in_tree: false,
    }
}

fn ours() -> Owner {
    owner(Some("test-driver"), None, Some("test-driver"))
}

fn finalizers(items: &[&str]) -> crate::model::List {
    items.iter().map(|item| Text::from(*item)).collect()
}

/// Released, with policy Delete, ours, with our finalizer and Kubernetes' own.
fn released() -> VolumeDetail {
    VolumeDetail {
        name: "pv1".into(),
        uid: "uid-pv1".into(),
        version: 5,
        finalizers: finalizers(&[PROTECTION, F]),
        owner: ours(),
        phase: VolumePhase::Released,
        reclaim: Reclaim::Delete,
        class: "sc1".into(),
        claim: Some(ClaimRef {
            namespace: "ns1".into(),
            name: "c1".into(),
            uid: "u1".into(),
        }),
        source: Source::Csi(Csi {
            driver: "test-driver".into(),
            handle: "vol-1".into(),
        }),
        deletion_secret_name: Some("".into()),
        deletion_secret_namespace: Some("".into()),
        ..VolumeDetail::default()
    }
}

fn class(parameters: &[(&str, &str)]) -> Class {
    Class {
        name: "sc1".into(),
        provisioner: "test-driver".into(),
        parameters: parameters.iter().copied().collect(),
        ..Class::default()
    }
}

/// The next request of an attempt, or its end, in a form that can be compared.
#[derive(Debug, PartialEq)]
enum Seen {
    Done,
    OfAnotherNode,
    Upkeep(Body),
    Release(Body),
    Remove(Option<Text>),
    Secret(SecretRef),
    Call(Call),
    Fail(Failure),
}

impl From<Result<Request, End>> for Seen {
    fn from(next: Result<Request, End>) -> Self {
        match next {
            Err(End::Done) => Self::Done,
            Err(End::OfAnotherNode) => Self::OfAnotherNode,
            Err(End::Failed(failure)) => Self::Fail(failure),
            Ok(Request::Secret(reference)) => Self::Secret(reference),
            Ok(Request::Call(call)) => Self::Call(call),
            Ok(Request::Write(write)) => {
                assert_eq!(write.object, Object::Volume("pv1".into()));
                assert_eq!(write.uid.as_deref(), Some("uid-pv1"));
                match write.purpose {
                    Purpose::Upkeep => Self::Upkeep(write.body),
                    Purpose::Release => Self::Release(write.body),
                    Purpose::Remove => {
                        assert_eq!(write.body, Body::Delete(None));
                        Self::Remove(write.uid)
                    }
                    purpose => unreachable!("{purpose:?}"),
                }
            }
            Ok(Request::Get(_) | Request::Event(_)) => unreachable!("it asks for no such thing"),
        }
    }
}

fn attempt(volume: &Volume) -> Attempt {
    Attempt::new(&"pv1".into(), Arc::new(volume.clone()), Instant::now())
}

/// How an attempt on the volume in these caches begins.
fn begins(provisioner: &Provisioner, known: &Known) -> Seen {
    let mut attempt = attempt(known.volume.as_ref().unwrap());
    script::next(provisioner.volume_script(&mut attempt, known)).into()
}

/// Caches with this volume.
fn known(volume: Volume) -> Known {
    Known {
        volume: Some(volume),
        ..Known::default()
    }
}

/// The first step for `volume`, everything else as in the fixture.
fn first(volume: &VolumeDetail) -> Seen {
    begins(&provisioner(None), &known(volume.clone().keep()))
}

fn decide(volume: &Volume, attempt: &mut Attempt) -> Seen {
    next(volume, attempt).into()
}

/// How the attempt goes on after it has read the volume so.
fn next(volume: &Volume, attempt: &mut Attempt) -> Result<Request, End> {
    attempt.current = Arc::new(volume.clone());
    script::next(provisioner(None).volume_script(attempt, &known(volume.clone())))
}

/// The reply to a request that succeeds.
fn granted(request: Request) -> Reply {
    match request {
        Request::Write(write) => Reply::Write(write, Ok(Found::Written)),
        Request::Call(Call::Delete(call)) => {
            let called = Called::Delete(call, Ok(DeleteVolumeResponse {}));
            Reply::Call(called, Duration::ZERO)
        }
        _ => unreachable!("not asked for"),
    }
}

fn call(secrets: &[(&str, &str)]) -> Seen {
    called(secrets, Migrated(false))
}

/// The same for a volume of an in-tree plugin.
fn migrated_call() -> Seen {
    called(&[], Migrated(true))
}

fn called(secrets: &[(&str, &str)], migrated: Migrated) -> Seen {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    let request = DeleteVolumeRequest {
        volume_id: "vol-1".into(),
        secrets: secrets.iter().map(pair).collect(),
    };
    Seen::Call(Call::Delete(controller::Call::new(request, migrated)))
}

/// A volume with a source of the in-tree plugin that `driver` replaced.
fn in_tree(driver: &'static str, owner: Owner) -> VolumeDetail {
    let csi = Csi {
        driver: driver.into(),
        handle: "vol-1".into(),
    };
    VolumeDetail {
        owner: Owner {
            csi_driver: Some(driver.into()),
            in_tree: true,
            ..owner
        },
        source: Source::InTree(Box::new(InTree {
            driver,
            csi: Ok(csi),
        })),
        ..released()
    }
}

fn untranslatable(mut volume: VolumeDetail) -> VolumeDetail {
    if let Source::InTree(source) = &mut volume.source {
        source.csi = Err("why".into());
    }
    volume
}

fn secret(namespace: &str, name: &str) -> SecretRef {
    SecretRef {
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn refused(not_found: bool) -> ApiError {
    ApiError {
        message: "refused".into(),
        refusal: if not_found {
            Refusal::NotFound
        } else {
            Refusal::Other
        },
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn volumes_are_deleted_kept_or_left_alone() {
    use Reclaim::{Delete, Recycle, Retain};
    use VolumePhase::{Available, Bound, Failed, Released};
    let of = |owner| VolumeDetail {
        owner,
        ..released()
    };
    let at = |phase, reclaim, items: &[&str]| VolumeDetail {
        phase,
        reclaim,
        finalizers: finalizers(items),
        ..released()
    };
    let gone = |volume| VolumeDetail {
        deleting: true,
        ..volume
    };
    let ebs = Some("kubernetes.io/aws-ebs");
    let upkeep = |metadata: Value| {
        let patch = Patch::Strategic(json!({ "metadata": metadata }));
        Seen::Upkeep(Body::Patch(Part::Main, patch))
    };
    let remove = || upkeep(json!({ "$deleteFromPrimitiveList/finalizers": [F] }));
    let add = || upkeep(json!({ "finalizers": [F] }));
    let rows = [
        ("203", released(), call(&[])),
        (
            "204",
            of(owner(Some("other"), None, Some("test-driver"))),
            Seen::Done,
        ),
        (
            "205",
            of(owner(ebs, Some("test-driver"), Some("test-driver"))),
            call(&[]),
        ),
        (
            "205 and M-71 in-tree source",
            in_tree("test-driver", owner(ebs, Some("test-driver"), None)),
            migrated_call(),
        ),
        (
            "M-73",
            in_tree("test-driver", owner(Some("test-driver"), None, None)),
            migrated_call(),
        ),
        (
            "M-74",
            in_tree("test-driver", owner(ebs, None, None)),
            Seen::Done,
        ),
        (
            "M-76",
            in_tree("test-driver", owner(None, Some("test-driver"), None)),
            migrated_call(),
        ),
        (
            "M-78",
            in_tree("other", owner(ebs, Some("other"), None)),
            Seen::Done,
        ),
        (
            "M-79",
            in_tree("other", owner(ebs, Some("test-driver"), None)),
            Seen::Fail(Failure::OtherDriver("other".into())),
        ),
        (
            "M-80",
            untranslatable(in_tree(
                "test-driver",
                owner(ebs, Some("test-driver"), None),
            )),
            Seen::Fail(Failure::Untranslatable("why".into())),
        ),
        ("206", of(owner(None, None, Some("test-driver"))), call(&[])),
        (
            "P-13 of another driver, made by this one as the annotation says",
            VolumeDetail {
                owner: owner(Some("test-driver"), None, Some("other")),
                source: Source::Csi(Csi {
                    driver: "other".into(),
                    handle: "vol-1".into(),
                }),
                ..released()
            },
            Seen::Fail(Failure::OtherDriver("other".into())),
        ),
        (
            "P-13 in use",
            VolumeDetail {
                owner: owner(Some("test-driver"), None, Some("other")),
                ..at(Bound, Delete, &[PROTECTION])
            },
            Seen::Done,
        ),
        (
            "206 another's",
            of(owner(None, None, Some("other"))),
            Seen::Done,
        ),
        (
            "207 and M-77",
            in_tree("test-driver", owner(None, None, None)),
            Seen::Done,
        ),
        (
            "207 in-tree, migrated to another",
            in_tree("test-driver", owner(None, Some("other"), None)),
            Seen::Done,
        ),
        ("208 Bound", at(Bound, Delete, &[F]), Seen::Done),
        ("208 Available", at(Available, Delete, &[F]), Seen::Done),
        ("208 Failed", at(Failed, Delete, &[F]), Seen::Done),
        ("209", at(Released, Retain, &[F]), remove()),
        ("209 clean", at(Released, Retain, &[PROTECTION]), Seen::Done),
        ("209 recycle", at(Released, Recycle, &[F]), remove()),
        ("209 deleting", gone(at(Bound, Retain, &[F])), remove()),
        (
            "209 another's",
            VolumeDetail {
                owner: owner(Some("other"), None, Some("other")),
                ..at(Released, Retain, &[F])
            },
            Seen::Done,
        ),
        ("198", at(Bound, Retain, &[F]), remove()),
        ("210", at(Bound, Delete, &[PROTECTION]), add()),
        (
            "210 static",
            VolumeDetail {
                owner: owner(None, None, Some("test-driver")),
                ..at(Bound, Delete, &[])
            },
            add(),
        ),
        (
            "210 another's",
            VolumeDetail {
                owner: owner(None, None, Some("other")),
                ..at(Bound, Delete, &[])
            },
            Seen::Done,
        ),
        (
            "210, of no driver",
            VolumeDetail {
                owner: owner(ebs, Some("test-driver"), None),
                ..at(Bound, Delete, &[])
            },
            Seen::Done,
        ),
        (
            "M-72",
            VolumeDetail {
                phase: Bound,
                finalizers: finalizers(&[PROTECTION]),
                ..in_tree("test-driver", owner(ebs, Some("test-driver"), None))
            },
            add(),
        ),
        (
            "M-75",
            VolumeDetail {
                phase: Bound,
                finalizers: finalizers(&[PROTECTION]),
                ..in_tree("test-driver", owner(ebs, None, None))
            },
            Seen::Done,
        ),
        (
            "M-79 in use",
            VolumeDetail {
                phase: Bound,
                finalizers: finalizers(&[PROTECTION]),
                ..in_tree("other", owner(ebs, Some("test-driver"), None))
            },
            Seen::Done,
        ),
        (
            "209 in-tree",
            VolumeDetail {
                reclaim: Retain,
                ..in_tree("test-driver", owner(ebs, Some("test-driver"), None))
            },
            remove(),
        ),
        ("211", at(Released, Delete, &[PROTECTION]), call(&[])),
        ("212", gone(at(Released, Delete, &[PROTECTION])), Seen::Done),
        ("213", gone(at(Bound, Delete, &[F])), Seen::Done),
        ("213 later", gone(released()), call(&[])),
        ("214", gone(at(Bound, Delete, &[PROTECTION])), Seen::Done),
        (
            "228",
            VolumeDetail {
                source: Source::Other,
                ..released()
            },
            Seen::Fail(Failure::NotCsi),
        ),
    ];
    for (row, volume, expected) in rows {
        assert_eq!(first(&volume), expected, "row {row}");
    }
    assert_eq!(
        begins(&provisioner(None), &known(Volume::NameOnly)),
        Seen::Done
    );
}

#[test]
fn what_must_hold_before_a_volume_is_deleted() {
    let known = || Known {
        class: Some(class(&[])),
        ..known(released().keep())
    };
    assert_eq!(
        begins(&provisioner(None), &known()),
        call(&[]),
        "rows 218, 219"
    );
    let mut in_use = provisioner(None);
    in_use.attached.add(&Attachment {
        volume: "pv1".into(),
        node: "n1".into(),
    });
    let attached = Failure::Attached("pv1".into(), "n1".into());
    assert!(attached.is_event() && !attached.is_counted(), "N-8a");
    assert_eq!(begins(&in_use, &known()), Seen::Fail(attached), "row 217");
    let unknown = Known {
        attachments_missed: true,
        ..known()
    };
    let missed = Seen::Fail(Failure::AttachmentsMissed);
    assert_eq!(begins(&provisioner(None), &unknown), missed, "FS-19");
    for lacking in [0, 1] {
        let mut driver = driver();
        match lacking {
            0 => driver.abilities.controller = false,
            _ => driver.abilities.create_delete = false,
        }
        let incapable = Known { driver, ..known() };
        assert_eq!(
            begins(&provisioner(None), &incapable),
            Seen::Fail(Failure::Incapable),
            "12.4 step 3"
        );
    }
    let mut there = provisioner(None);
    there.node = Some([("key", "foo")].into_iter().collect());
    let elsewhere = VolumeDetail {
        affinity: Some(Arc::from([Term::default()])),
        ..released()
    };
    let elsewhere = Known {
        volume: Some(elsewhere.keep()),
        ..known()
    };
    assert_eq!(begins(&there, &elsewhere), Seen::OfAnotherNode, "row 278");
    assert_eq!(begins(&there, &known()), call(&[]), "row 279");
    let everywhere = begins(&provisioner(None), &elsewhere);
    assert_eq!(everywhere, call(&[]), "12.4 not per node");
}

/// Runs an attempt on `volume` to its end: the requests by name, and its result. The reply to DELETE is the object
/// being deleted, or `removed`.
fn run(
    mut volume: VolumeDetail,
    removed: Option<ApiError>,
) -> (Vec<&'static str>, Result<(), Failure>) {
    let mut attempt = attempt(&volume.clone().keep());
    let mut steps = Vec::new();
    for _ in 0..9 {
        let kept = volume.clone().keep();
        let name = match decide(&kept, &mut attempt) {
            Seen::Done => return (steps, Ok(())),
            Seen::Call(_) => "DeleteVolume",
            Seen::Remove(uid) => {
                assert_eq!(uid, Some(volume.uid.clone()));
                volume.deleting = removed.is_none();
                "DELETE"
            }
            Seen::Release(patch) => {
                assert_eq!(patch, finalizer(FinalizerAction::Remove));
                volume.finalizers = finalizers(&[PROTECTION]);
                "PATCH"
            }
            step => unreachable!("{step:?}"),
        };
        let request = next(&kept, &mut attempt).unwrap();
        let reply = match removed.clone().filter(|_| name == "DELETE") {
            Some(error) => request.refused(error),
            None => granted(request),
        };
        steps.push(name);
        attempt.answered(reply);
        if let Some(End::Failed(failure)) = attempt.over.take() {
            return (steps, Err(failure));
        }
    }
    unreachable!("does not end: {steps:?}")
}

#[test]
fn rows_203_211_213_216_the_volume_first_then_its_object() {
    let bare = VolumeDetail {
        finalizers: finalizers(&[]),
        ..released()
    };
    let deleted = VolumeDetail {
        deleting: true,
        ..released()
    };
    assert_eq!(
        run(released(), None),
        (vec!["DeleteVolume", "DELETE", "PATCH"], Ok(())),
        "row 203"
    );
    assert_eq!(
        run(bare, None),
        (vec!["DeleteVolume", "DELETE"], Ok(())),
        "row 211"
    );
    assert_eq!(
        run(deleted, None),
        (vec!["DeleteVolume", "PATCH"], Ok(())),
        "row 213"
    );
    let refusal = refused(false);
    assert_eq!(
        run(released(), Some(refusal.clone())),
        (
            vec!["DeleteVolume", "DELETE"],
            Err(Failure::Remove(refusal.clone()))
        ),
        "row 216"
    );
    assert!(!Failure::Remove(refusal).is_event(), "row 216");
    let gone = run(released(), Some(refused(true)));
    assert_eq!(
        gone,
        (vec!["DeleteVolume", "DELETE"], Ok(())),
        "somebody else's DELETE was first"
    );
}

#[test]
fn row_215_a_failed_call_is_an_event_whatever_its_code() {
    for code in [
        Code::NotFound,
        Code::Internal,
        Code::DeadlineExceeded,
        Code::FailedPrecondition,
    ] {
        let volume = released().keep();
        let error = RpcError {
            code,
            message: "no".into(),
        };
        let results = [
            CallError::Failed(error.clone()),
            CallError::Unreachable(error.clone()),
        ];
        for result in results {
            let mut attempt = attempt(&volume);
            let Ok(Request::Call(call)) = next(&volume, &mut attempt) else {
                unreachable!("no call")
            };
            attempt.answered(Reply::Call(call.failed(result), Duration::ZERO));
            let failure = Failure::Call(error.clone());
            assert!(failure.is_event() && failure.is_counted(), "row 215");
            assert_eq!(attempt.over, Some(End::Failed(failure)), "row 215");
            assert!(!attempt.has_deleted());
        }
    }
}

#[test]
fn upkeep_is_done_once_per_attempt() {
    let volume = VolumeDetail {
        phase: VolumePhase::Bound,
        finalizers: finalizers(&[]),
        ..released()
    }
    .keep();
    let answered = |reply: fn(Request) -> Reply| {
        let mut attempt = attempt(&volume);
        let request = next(&volume, &mut attempt).unwrap();
        attempt.answered(reply(request));
        attempt
    };
    let mut done = answered(granted);
    assert_eq!(
        decide(&volume, &mut done),
        Seen::Done,
        "also where a webhook undoes it"
    );
    let failure = Failure::FinalizerAction(refused(false));
    assert!(!failure.is_event() && !failure.is_counted());
    let failing = answered(|request| request.refused(refused(false)));
    assert_eq!(failing.over, Some(End::Failed(failure)));
    let mut gone = answered(|request| request.refused(refused(true)));
    assert_eq!(gone.over, None);
    assert_eq!(decide(&volume, &mut gone), Seen::Done);
}

#[test]
fn an_attempt_goes_on_with_the_newest_reading_of_its_object() {
    let at = |version| {
        VolumeDetail {
            version,
            ..released()
        }
        .keep()
    };
    let another = VolumeDetail {
        uid: "other".into(),
        version: 9,
        ..released()
    }
    .keep();
    let mut attempt = attempt(&at(5));
    // Whether the attempt goes on, and then whether with the cached volume.
    let taken = |attempt: &mut Attempt, cached: Option<&Volume>| {
        let current = Arc::new(at(5));
        attempt.current = Arc::clone(&current);
        attempt.refresh(cached.cloned().map(Arc::new)).ok()?;
        Some(!Arc::ptr_eq(&attempt.current, &current))
    };
    let rows = [
        ("older", Some(at(4)), Some(false)),
        ("same", Some(at(5)), Some(false)),
        ("newer", Some(at(6)), Some(true)),
        ("released no more", Some(Volume::NameOnly), Some(true)),
        ("made anew", Some(another.clone()), None),
        ("gone", None, None),
    ];
    for (row, cached, expected) in rows {
        assert_eq!(taken(&mut attempt, cached.as_ref()), expected, "{row}");
    }
    let request = next(&at(5), &mut attempt).unwrap();
    attempt.answered(granted(request));
    let rows = [
        ("newer", Some(at(6)), Some(true)),
        ("released no more", Some(Volume::NameOnly), Some(false)),
        ("made anew", Some(another), None),
        ("gone", None, Some(false)),
    ];
    for (row, cached, expected) in rows {
        let taken = taken(&mut attempt, cached.as_ref());
        assert_eq!(taken, expected, "deleted, {row}");
    }
}

#[test]
fn an_upkeep_that_found_another_volume_is_followed_by_a_look() {
    let bound = |reclaim, held: &[&str]| VolumeDetail {
        phase: VolumePhase::Bound,
        reclaim,
        finalizers: finalizers(held),
        ..released()
    };
    let before = bound(Reclaim::Delete, &[]).keep();
    let mut done = attempt(&before);
    let request = next(&before, &mut done).unwrap();
    done.answered(granted(request));
    let rows = [
        ("done", bound(Reclaim::Delete, &[F]), false),
        ("undone by a webhook", bound(Reclaim::Delete, &[]), false),
        ("to be kept after all", bound(Reclaim::Retain, &[F]), true),
        ("released meanwhile", released(), true),
    ];
    for (row, after, expected) in rows {
        done.current = Arc::new(after.keep());
        assert_eq!(done.is_to_follow(), expected, "{row}");
    }
    assert!(!attempt(&released().keep()).is_to_follow());
}

/// Found by the simulation: the volume was deleted, its object stayed, and was taken for removed.
#[test]
fn an_upkeep_that_turned_into_a_deletion_finishes_it() {
    let released = released().keep();
    let mut attempt = attempt(&Volume::Finalizer(Arc::new(FinalizerDue {
        uid: "uid-pv1".into(),
        ..FinalizerDue::default()
    })));
    assert_eq!(decide(&released, &mut attempt), call(&[]));
    let request = next(&released, &mut attempt).unwrap();
    attempt.answered(granted(request));
    assert_eq!(
        decide(&released, &mut attempt),
        Seen::Remove(Some("uid-pv1".into())),
        "the object is still to go"
    );
}
