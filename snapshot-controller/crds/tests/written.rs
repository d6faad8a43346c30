//! The chart's CRDs equal those generated from the types.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fs;
use std::path::Path;

#[test]
fn the_charts_definitions_are_those_of_the_types() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/snapshot-controller/definitions");
    let mut written: Vec<_> = { fs::read_dir(&folder).unwrap() }
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        // Skips the Kustomization that builds plain manifests of the CRDs.
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    written.sort();
    let definitions = snapshot_crds::all();
    let mut expected: Vec<_> = definitions.iter().map(|it| it.file.clone()).collect();
    expected.sort();
    assert_eq!(written, expected);
    for definition in definitions {
        let is = fs::read_to_string(folder.join(&definition.file)).unwrap();
        let shall = snapshot_crds::text(&definition).unwrap();
        assert!(
            is == shall,
            "{} is not what the types say: make crds",
            definition.file
        );
    }
}
