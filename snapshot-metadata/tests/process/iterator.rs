//! Upstream's own client library, `e2e/iterator`, finds the service and gets the ranges.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use csi_proto::csi::GetMetadataDeltaRequest;
use serde_json::{Value, json};
use sidecar_testkit::driver::Part;
use tokio::process::Command;

use crate::stage::{Stage, USER, blocks, content, get_snapshots, snapshot};

/// Upstream's client, built before; skipped if it is missing, except where it must not be.
fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../build/iterate");
    let program = std::env::var_os("ITERATE").map_or(built, PathBuf::from);
    if program.exists() {
        return Some(program);
    }
    let missing = format!(
        "no {}, which `make iterator` builds with Go",
        program.display()
    );
    let ci = std::env::var("CI").unwrap_or_default();
    assert!(ci != "true", "{missing}");
    println!("skipped: {missing}");
    None
}

#[tokio::test]
async fn upstream_s_iterator_is_served() {
    let Some(program) = program() else { return };
    let stage = Stage::streaming([Part::Blocks(256), Part::Blocks(256)]).await;
    stage.api.insert(content("vc0", "snap-0"));
    let earlier = stage.api.insert(snapshot("s0", "vc0"));
    stage.api.edit("volumesnapshotcontents", "vc0", |object| {
        let uid = &earlier["metadata"]["uid"];
        object["spec"]["volumeSnapshotRef"] =
            json!({"namespace": "default", "name": "s0", "uid": uid});
    });
    // The token that the model API server issues for the service account of this name.
    stage
        .api
        .issue_token("token-of-default-backup", USER, &["aud1"]);
    stage.api.grant(USER, get_snapshots("default"));
    let running = stage.started(&[]).await;
    let authority = base64::engine::general_purpose::STANDARD.encode(&stage.pair.certificate);
    stage
        .api
        .edit("snapshotmetadataservices", crate::stage::DRIVER, |object| {
            object["spec"]["address"] = running.address.as_str().into();
            object["spec"]["caCert"] = authority.into();
        });
    for (arguments, most) in [(&["-max=100"][..], 100), (&["-previous=s0"], 256)] {
        let output = Command::new(&program)
            .arg(format!("-kubeconfig={}", stage.kubeconfig().display()))
            .args(["-snapshot=s1", "-account=backup"])
            .args(arguments)
            .output()
            .await
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words}");
        let records: Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut ranges = Vec::new();
        for record in records.as_array().unwrap() {
            let of_record = record["block_metadata"].as_array().unwrap();
            assert!(of_record.len() <= most, "{}", of_record.len());
            assert_eq!(record["block_metadata_type"], 1);
            for range in of_record {
                let number = |field: &str| range[field].as_i64().unwrap_or_default();
                ranges.push((number("byte_offset"), number("size_bytes")));
            }
        }
        assert_eq!(ranges, blocks(0, 512));
    }
    // The program takes the earlier snapshot's handle from its content.
    let calls = stage.driver.calls_to("GetMetadataDelta");
    let asked = calls[0].request::<GetMetadataDeltaRequest>().unwrap();
    assert_eq!(asked.base_snapshot_id, "snap-0");
}
