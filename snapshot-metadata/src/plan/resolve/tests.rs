use serde_json::json;

use super::*;

fn said<T>(result: Result<T, Refusal>) -> Result<T, (Code, String)> {
    result.map_err(|refusal| (refusal.code, refusal.text))
}

fn unavailable<T>(text: &str) -> Result<T, (Code, String)> {
    Err((Code::Unavailable, text.to_owned()))
}

#[test]
fn cb_23_cb_24_snapshots_that_are_not_ready() {
    let not_ready = "the VolumeSnapshot is not yet ready, name: s1";
    let unbound = "boundVolumeSnapshotContentName is not set in VolumeSnapshot status, name: s1";
    for (status, expected) in [
        (json!(null), unavailable(not_ready)),
        (json!({}), unavailable(not_ready)),
        (json!({"readyToUse": false}), unavailable(not_ready)),
        (json!({"readyToUse": true}), unavailable(unbound)),
        (
            json!({"readyToUse": true, "boundVolumeSnapshotContentName": ""}),
            unavailable(unbound),
        ),
        (
            json!({"readyToUse": true, "boundVolumeSnapshotContentName": "vc1"}),
            Ok("vc1"),
        ),
    ] {
        let mut object = json!({"metadata": {"name": "s1"}, "spec": {}});
        if !status.is_null() {
            object["status"] = status;
        }
        let snapshot = Snapshot::read(&object.to_string()).unwrap();
        assert_eq!(said(content_of(&snapshot, "s1")), expected);
    }
}

#[test]
fn cb_23_cb_24_cb_25_contents_that_cannot_be_used() {
    let not_ready = "the VolumeSnapshotContent is not yet ready, name: vc1";
    let no_handle = "snapshotHandle is not set in VolumeSnapshotContent status, name: vc1";
    let others = "VolumeSnapshot 's1' does not belong to the CSI driver 'T'";
    let others = Err((Code::InvalidArgument, others.to_owned()));
    for (driver, status, expected) in [
        ("T", json!(null), unavailable(not_ready)),
        (
            "T",
            json!({"readyToUse": false, "snapshotHandle": "h"}),
            unavailable(not_ready),
        ),
        ("T", json!({"readyToUse": true}), unavailable(no_handle)),
        (
            "U",
            json!({"readyToUse": true, "snapshotHandle": "h"}),
            others,
        ),
        (
            "T",
            json!({"readyToUse": true, "snapshotHandle": "h"}),
            Ok("h"),
        ),
    ] {
        let mut object = json!({"metadata": {"name": "vc1"}, "spec": {"driver": driver}});
        if !status.is_null() {
            object["status"] = status;
        }
        let content = Content::read(&object.to_string()).unwrap();
        assert_eq!(said(handle_of(&content, "vc1", "s1", "T")), expected);
    }
}

#[test]
fn cb_15_cb_18_whose_token_it_is() {
    for (status, is_accepted) in [
        (
            json!({"authenticated": true, "audiences": ["aud1"], "user": {"username": "u"}}),
            true,
        ),
        (
            json!({"authenticated": true, "audiences": ["other", "aud1"]}),
            true,
        ),
        (
            json!({"authenticated": true, "audiences": ["other"]}),
            false,
        ),
        (json!({"authenticated": true}), false),
        (
            json!({"authenticated": false, "audiences": ["aud1"]}),
            false,
        ),
        (json!({"error": "invalid bearer token"}), false),
        (json!(null), false),
    ] {
        let review =
            sidecar::secure::reviews::review(&json!({"status": status}).to_string()).unwrap();
        let found = said(authenticated(review, "aud1"));
        let refused = (Code::Unauthenticated, "unauthenticated user".to_owned());
        assert_eq!(found.is_ok(), is_accepted);
        assert!(is_accepted || found == Err(refused));
    }
}

fn class(name: &str, driver: &str, is_default: bool, secret: [Option<&str>; 2]) -> Class {
    Class {
        name: name.to_owned(),
        driver: driver.to_owned(),
        is_default,
        secret_name: secret[0].map(str::to_owned),
        secret_namespace: secret[1].map(str::to_owned),
    }
}

#[test]
fn cb_28_the_default_class_of_a_driver() {
    let is = |name, driver, is_default| class(name, driver, is_default, [None, None]);
    let several = "multiple default VolumeSnapshotClasses are set for the CSI driver 'T'";
    for (classes, expected) in [
        (vec![], Ok(None)),
        (vec![is("a", "T", false), is("b", "U", true)], Ok(None)),
        (
            vec![is("a", "T", true), is("b", "U", true)],
            Ok(Some("a".to_owned())),
        ),
        (
            vec![is("a", "T", true), is("b", "T", true)],
            unavailable(several),
        ),
    ] {
        let found = default_class(classes, "T").map(|class| class.map(|class| class.name));
        assert_eq!(said(found), expected);
    }
}

#[test]
fn cb_26_cb_29_cb_30_the_secret_of_a_call() {
    const WRAP: &str = "invalid snapshotter secret parameters in VolumeSnapshotClass: ";
    let half = "failed to get name and namespace template from params: either name and namespace \
                for Snapshotter secrets specified, Both must be specified";
    let unknown = r#"error resolving value "$x": invalid tokens: ["x"]"#;
    let named = |name: &str| Ok(Some(format!("default/{name}")));
    let of = |name, namespace| Some(class("c", "T", false, [name, namespace]));
    for (row, class, noted, expected) in [
        ("none", of(None, None), true, Ok(None)),
        (
            "CB-26",
            of(Some("sec-${volumesnapshot.name}"), Some("default")),
            true,
            named("sec-s1"),
        ),
        (
            "CB-26",
            of(
                Some("${volumesnapshotcontent.name}"),
                Some("${volumesnapshot.namespace}"),
            ),
            false,
            named("vc1"),
        ),
        ("CB-29", None, true, named("noted")),
        ("CB-29", None, false, Ok(None)),
        (
            "CB-30",
            of(Some("a"), None),
            true,
            unavailable(&format!("{WRAP}{half}")),
        ),
        (
            "CB-30",
            of(Some("$x"), Some("default")),
            true,
            unavailable(&format!("{WRAP}{unknown}")),
        ),
    ] {
        let noted = noted.then(|| ("default".to_owned(), "noted".to_owned()));
        let content = Content {
            secret: noted,
            ..Content::default()
        };
        let found = secret(class.as_ref(), &content, ("default", "s1"), "vc1");
        let found = found.map(|it| it.map(|it| format!("{}/{}", it.namespace, it.name)));
        assert_eq!(said(found), expected, "{row}");
    }
}
