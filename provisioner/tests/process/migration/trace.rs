//! Row O-21: volumes of in-tree plugins are traced like any others.

use sidecar::trace::TraceId;
use sidecar_testkit::CallFault;
use sidecar_testkit::build::Object;
use sidecar_testkit::collector::Collector;

use super::super::stage::ANNOTATION;
use super::super::trace::{TRACE, UID, now, start};
use super::volumes::ebs;
use super::{EBS, MIGRATED, PLUGIN, Segments, answer, claim_for, on, with_class};

const CREATE: &str = "csi.v1.Controller/CreateVolume";

#[tokio::test]
async fn o_21_a_claim_of_a_migrated_class_is_one_trace_that_says_so() {
    // A claim from before the migration names the plugin.
    let older = claim_for(EBS)
        .annotation(ANNOTATION, PLUGIN)
        .annotation(MIGRATED, EBS);
    for claim in [claim_for(EBS), older] {
        let stage = with_class(EBS, &[]).await;
        let collector = Collector::start().await;
        let zone: Segments<'_> = &[("topology.ebs.csi.aws.com/zone", "us-east-1a")];
        let response = answer("vol-1", &[], &[zone]);
        let create = CallFault::on("CreateVolume").answer(response);
        stage.driver.fault(create);
        let _provisioner = start(&stage, &collector).await;
        let created = claim.uid(UID).with("/metadata/creationTimestamp", now());
        stage.api.insert(created);
        let volume = format!("pvc-{UID}");
        stage.until_volume(&volume).await;
        assert!(stage.volume(&volume)["spec"]["csi"].is_null());
        collector.until_named("provision").await;
        stage.bind("ns1/c1", &volume);
        collector.until_named("PersistentVolumeClaim").await;
        for name in ["PersistentVolumeClaim", "provision", CREATE] {
            let found = collector.named(name);
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(found[0].trace(), TRACE, "{name}");
            assert_eq!(found[0].attribute("csi.migrated"), "true", "{name}");
        }
        let root = &collector.named("PersistentVolumeClaim")[0];
        assert_eq!(root.attribute("csi.driver.name"), EBS);
        assert_eq!(root.id(), TraceId::of(UID).root().to_string());
        assert_eq!(collector.named("bind")[0].parent(), root.id());
    }
}

#[tokio::test]
async fn o_21_the_deletion_of_an_in_tree_volume_is_a_trace_that_says_so() {
    let stage = on(EBS).await;
    let collector = Collector::start().await;
    let name = format!("pvc-{UID}");
    stage.driver.volume(&format!("vol-{name}"));
    let _provisioner = start(&stage, &collector).await;
    let volume = ebs(&name).with("/spec/claimRef/uid", UID);
    stage.api.insert(volume);
    let delete = collector.until_named("delete").await;
    assert_ne!(delete.trace(), TRACE);
    assert_eq!(delete.attribute("csi.migrated"), "true");
    let links = delete.links();
    assert!(links.iter().any(|(trace, _)| trace == TRACE), "{links:?}");
}
