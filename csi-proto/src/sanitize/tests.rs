//! Rows 23 to 32 of the common specification, with CSI's messages and with a file that has every shape of the
//! generator.

use prost::Message;

use super::*;
use crate::csi::{
    CapacityRange, ControllerServiceCapability, CreateVolumeRequest, ListVolumesResponse,
    NodeGetVolumeStatsResponse, Volume, VolumeCapability, VolumeContentSource,
    controller_service_capability, list_volumes_response, volume_capability,
};

#[allow(clippy::all, dead_code, unreachable_pub, reason = "generated")]
#[rustfmt::skip]
mod shapes {
    include!("sanitizer.test.rs");
}

use shapes::holder::{Choice, Nested};
use shapes::{Holder, Inner, Mode};

fn text(message: &impl Sanitize) -> String {
    sanitized(message).to_string()
}

fn secrets() -> BTreeMap<String, String> {
    BTreeMap::from([("password".to_owned(), "hunter2".to_owned())])
}

fn inner() -> Inner {
    Inner {
        array_secret: vec!["hunter2".to_owned()],
        name: String::new(),
    }
}

#[test]
fn row_23_an_empty_message() {
    assert_eq!(text(&CreateVolumeRequest::default()), "{}");
}

#[test]
fn row_24_a_secret_map() {
    let request = CreateVolumeRequest {
        name: "foo".to_owned(),
        capacity_range: Some(CapacityRange {
            required_bytes: 1024,
            limit_bytes: 0,
        }),
        secrets: secrets(),
        ..CreateVolumeRequest::default()
    };
    assert_eq!(
        text(&request),
        r#"{"capacity_range":{"required_bytes":1024},"name":"foo","secrets":"***stripped***"}"#
    );
}

#[test]
fn row_25_a_secret_of_another_type() {
    let holder = Holder {
        secret_number: 42,
        secret_list: vec![inner()],
        secret_message: Some(inner()),
        ..Holder::default()
    };
    assert_eq!(
        text(&holder),
        r#"{"secret_list":"***stripped***","secret_message":"***stripped***","secret_number":"***stripped***"}"#
    );
}

#[test]
fn row_26_a_list_of_messages_with_secrets() {
    let named = Inner {
        name: "n".to_owned(),
        ..inner()
    };
    let holder = Holder {
        list: vec![inner(), named],
        ..Holder::default()
    };
    assert_eq!(
        text(&holder),
        r#"{"list":[{"array_secret":"***stripped***"},{"array_secret":"***stripped***","name":"n"}]}"#
    );
}

#[test]
fn row_27_a_map_of_messages_with_secrets() {
    let holder = Holder {
        by_number: BTreeMap::from([(1, inner())]),
        ..Holder::default()
    };
    assert_eq!(
        text(&holder),
        r#"{"by_number":{"1":{"array_secret":"***stripped***"}}}"#
    );
    let several = Holder {
        by_number: BTreeMap::from([(9, Inner::default()), (10, Inner::default())]),
        ..Holder::default()
    };
    assert_eq!(
        text(&several),
        r#"{"by_number":{"10":{},"9":{}}}"#,
        "keys sorted as text"
    );
}

#[test]
fn row_28_a_choice_with_secrets() {
    let with = |choice| Holder {
        choice: Some(choice),
        flag: true,
        ..Holder::default()
    };
    let named = Inner {
        name: "n".to_owned(),
        ..inner()
    };
    for (choice, shown) in [
        (
            Choice::InnerChoice(named),
            r#"{"flag":true,"inner_choice":{"array_secret":"***stripped***","name":"n"}}"#,
        ),
        (
            Choice::SecretChoice("hunter2".to_owned()),
            r#"{"flag":true,"secret_choice":"***stripped***"}"#,
        ),
        (
            Choice::PlainChoice("p".to_owned()),
            r#"{"flag":true,"plain_choice":"p"}"#,
        ),
    ] {
        assert_eq!(text(&with(choice)), shown);
    }
}

#[test]
fn secrets_at_any_depth() {
    let holder = Holder {
        nested: Some(Nested {
            deep: Some(inner()),
            secret_mode: Mode::Some as i32,
        }),
        r#type: "t".to_owned(),
        big: u64::MAX,
        ..Holder::default()
    };
    assert_eq!(
        text(&holder),
        r#"{"big":18446744073709551615,"nested":{"deep":{"array_secret":"***stripped***"},"secret_mode":"***stripped***"},"type":"t"}"#
    );
}

#[test]
fn row_29_enums_by_name_or_number() {
    let mode = |mode| VolumeCapability {
        access_mode: Some(volume_capability::AccessMode { mode }),
        access_type: None,
    };
    assert_eq!(
        text(&mode(1)),
        r#"{"access_mode":{"mode":"SINGLE_NODE_WRITER"}}"#
    );
    assert_eq!(text(&mode(12345)), r#"{"access_mode":{"mode":12345}}"#);
    let holder = Holder {
        modes: vec![1, 0, -7],
        mode: 1,
        ..Holder::default()
    };
    assert_eq!(
        text(&holder),
        r#"{"mode":"SOME","modes":["SOME","NONE",-7]}"#
    );
}

#[test]
fn row_30_fields_unknown_to_this_build() {
    let mut bytes = Volume {
        volume_id: "v".to_owned(),
        ..Volume::default()
    }
    .encode_to_vec();
    // Field 1000, a text: "hunter2".
    bytes.extend([0xc2, 0x3e, 7]);
    bytes.extend(b"hunter2");
    let volume = Volume::decode(&*bytes).unwrap();
    assert_eq!(text(&volume), r#"{"volume_id":"v"}"#);
}

#[test]
fn row_31_what_is_not_a_message() {
    let shown = |value: &dyn Fn(&mut String)| {
        let mut text = String::new();
        value(&mut text);
        text
    };
    assert_eq!(shown(&|text| None::<Inner>.write(text)), "null");
    assert_eq!(shown(&|text| 1_i64.write(text)), "1");
    assert_eq!(shown(&|text| "a".to_owned().write(text)), r#""a""#);
    assert_eq!(shown(&|text| true.write(text)), "true");
}

#[test]
fn row_32_an_empty_message_that_is_there() {
    let request = CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource::default()),
        ..CreateVolumeRequest::default()
    };
    assert_eq!(text(&request), r#"{"volume_content_source":{}}"#);
}

#[test]
fn every_text_is_json() {
    let request = CreateVolumeRequest {
        name: "a\"\\\n\r\t\u{1}\u{7f}\u{e9}\u{2028}".to_owned(),
        parameters: BTreeMap::from([("k\"".to_owned(), String::new())]),
        ..CreateVolumeRequest::default()
    };
    let shown = text(&request);
    assert!(!shown.contains('\n'));
    let json: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(json["name"], request.name);
    assert_eq!(json["parameters"]["k\""], "");
}

#[test]
fn no_way_of_printing_shows_a_secret() {
    let request = CreateVolumeRequest {
        secrets: secrets(),
        ..CreateVolumeRequest::default()
    };
    let holder = Holder {
        choice: Some(Choice::SecretChoice("hunter2".to_owned())),
        list: vec![inner()],
        ..Holder::default()
    };
    for printed in [
        format!("{request:?}"),
        format!("{request:#?}"),
        format!("{:?}", Some(vec![&request])),
        format!("{holder:?}"),
        format!("{:?}", holder.choice),
        format!("{:?}", sanitize_request(&request)),
    ] {
        assert!(!printed.contains("hunter2"), "{printed}");
    }
    assert_eq!(
        request.secrets,
        secrets(),
        "the message itself is untouched"
    );
}

fn sanitize_request(request: &CreateVolumeRequest) -> tonic::Request<CreateVolumeRequest> {
    tonic::Request::new(request.clone())
}

/// Drivers built on CSI up to 1.12 send fields and numbers that 1.13 has reserved.
#[test]
fn fields_and_numbers_of_older_drivers_decode() {
    // VolumeCondition { abnormal: true, message: "x" } as field 2.
    let condition = [0x12, 5, 0x08, 1, 0x12, 1, b'x'];
    let stats = NodeGetVolumeStatsResponse::decode(&condition[..]).unwrap();
    assert_eq!(stats, NodeGetVolumeStatsResponse::default());
    let status = list_volumes_response::VolumeStatus::decode(&condition[..]).unwrap();
    assert_eq!(status, list_volumes_response::VolumeStatus::default());
    // An entry whose status carries a node and the condition.
    let mut bytes = vec![0x0a, 2 + 10, 0x12, 10, 0x0a, 1, b'n'];
    bytes.extend(condition);
    let list = ListVolumesResponse::decode(&*bytes).unwrap();
    let nodes = &list.entries[0].status.as_ref().unwrap().published_node_ids;
    assert_eq!(nodes, &["n"]);
    // VOLUME_CONDITION was 11 for controllers.
    let capability = ControllerServiceCapability::decode(&[0x0a, 2, 0x08, 11][..]).unwrap();
    let Some(controller_service_capability::Type::Rpc(rpc)) = &capability.r#type else {
        panic!("{capability:?}")
    };
    assert_eq!(rpc.r#type, 11);
    assert_eq!(text(&capability), r#"{"rpc":{"type":11}}"#);
}

#[test]
fn methods_describe_bytes() {
    let find = |path: &str| {
        let methods = crate::csi::methods::CONTROLLER.iter();
        *methods
            .into_iter()
            .find(|method| method.path == path)
            .unwrap()
    };
    let method = find("/csi.v1.Controller/CreateVolume");
    let request = CreateVolumeRequest {
        secrets: secrets(),
        ..CreateVolumeRequest::default()
    };
    let shown = (method.request)(&request.encode_to_vec());
    assert_eq!(shown.as_deref(), Some(r#"{"secrets":"***stripped***"}"#));
    assert_eq!((method.response)(&[]).as_deref(), Some("{}"));
    assert_eq!(
        (method.response)(&[0xff]),
        None,
        "bytes that are no message"
    );
}
