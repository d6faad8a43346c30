//! Rows M-1 to M-4: the handshake with a driver that replaced an in-tree plugin is repeated, and metrics of calls tell
//! whether they were for a volume of the plugin.

use super::super::stage::{READY, Stage, free_address, get};
use super::{AZURE_DISK, AZURE_FILE, CINDER, EBS, GCE, PORTWORX, VSPHERE, on};

#[tokio::test]
async fn m_1_and_2_drivers_that_replaced_a_plugin_are_met_twice_and_count_what_is_migrated() {
    let others = ["EBS.csi.aws.com", "rbd.csi.ceph.com", "hostpath.csi.k8s.io"];
    let replacing = [EBS, GCE, CINDER, AZURE_DISK, AZURE_FILE, VSPHERE, PORTWORX];
    let rows = replacing.map(|name| (name, true)).into_iter();
    for (driver, migrated) in rows.chain(others.map(|name| (name, false))) {
        let stage = on(driver).await;
        let address = free_address();
        let http = format!("--http-endpoint={address}");
        let program = stage.start(&[&http]);
        program.logs(READY).await;
        let probes = if migrated { 2 } else { 1 };
        assert_eq!(stage.calls("Probe"), probes, "{driver}");
        assert_eq!(stage.calls("GetPluginInfo"), 1, "{driver}");
        let (_, text) = get(&address, "/metrics").await;
        let calls = text
            .lines()
            .filter(|line| line.starts_with("csi_sidecar_operations"));
        let calls: Vec<&str> = calls.collect();
        assert!(!calls.is_empty(), "{driver}: {text}");
        let labelled = |line: &&str| line.contains(r#"migrated="false""#) == migrated;
        assert!(calls.iter().all(labelled), "{driver}: {text}");
        assert!(!text.contains(r#"migrated="true""#), "{driver}: {text}");
    }
}

#[tokio::test]
async fn m_3_the_log_names_the_plugin() {
    let stage = on(EBS).await;
    let program = stage.start(&["-v=2"]);
    program.logs("kubernetes.io/aws-ebs").await;
    let stage = Stage::new().await;
    let program = stage.start(&["-v=2"]);
    program.logs(READY).await;
    assert!(!program.log().contains("in-tree"), "{}", program.log());
}

#[tokio::test]
async fn m_4_there_are_no_gates_for_it() {
    let stage = on(EBS).await;
    for gate in [
        "CSIMigration",
        "CSIMigrationAWS",
        "InTreePluginAWSUnregister",
    ] {
        let ended = stage.start(&[&format!("--feature-gates={gate}=true")]);
        let ended = ended.end().await;
        assert_eq!(ended.code, Some(255), "{gate}: {}", ended.log);
        assert!(ended.log.contains(gate), "{}", ended.log);
    }
}
