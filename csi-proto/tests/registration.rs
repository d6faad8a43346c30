//! Bytes of the registration protocol, as the Go programs write them.

use csi_proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse, methods,
};
use prost::Message;

const GOLDEN: &str =
    "0a09435349506c7567696e120d642e6578616d706c652e636f6d1a0b2f702f6373692e736f636b2205312e302e30";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_answer_to_get_info() {
    let info = PluginInfo {
        r#type: "CSIPlugin".to_owned(),
        name: "d.example.com".to_owned(),
        endpoint: "/p/csi.sock".to_owned(),
        supported_versions: vec!["1.0.0".to_owned()],
    };
    let bytes = info.encode_to_vec();
    assert_eq!((hex(&bytes).as_str(), bytes.len()), (GOLDEN, 46));
    assert_eq!(PluginInfo::decode(&*bytes).unwrap(), info);
}

#[test]
fn the_status_from_kubelet() {
    let status = RegistrationStatus {
        plugin_registered: false,
        error: "boom".to_owned(),
    };
    assert_eq!(hex(&status.encode_to_vec()), "1204626f6f6d");
    let registered = RegistrationStatus::decode(&[0x08, 1][..]).unwrap();
    assert!(registered.plugin_registered);
    assert!(InfoRequest {}.encode_to_vec().is_empty());
    assert!(RegistrationStatusResponse {}.encode_to_vec().is_empty());
}

/// The package is `pluginregistration`, without the version in the name of its folder.
#[test]
fn paths() {
    let paths: Vec<&str> = methods::REGISTRATION
        .iter()
        .map(|method| method.path)
        .collect();
    assert_eq!(
        paths,
        [
            "/pluginregistration.Registration/GetInfo",
            "/pluginregistration.Registration/NotifyRegistrationStatus",
        ]
    );
}
