//! Generates `csi-proto`'s code.
//!
//! A program of its own and not a build script: the generated code is checked in, so that a build needs neither
//! `protoc` nor the twenty crates used here, and a reviewer sees the changes.

mod methods;
mod sanitize;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost_types::FileDescriptorSet;
use protox::prost_reflect::DescriptorPool;

/// The `.proto` files, each with the package it declares; the package names the generated file.
pub const FILES: [(&str, &str); 5] = [
    ("csi.proto", "csi.v1"),
    ("health.proto", "grpc.health.v1"),
    ("pluginregistration.proto", "pluginregistration"),
    ("snapshotmetadata.proto", "snapshotmetadata"),
    (VOLUME_CONDITION.0, VOLUME_CONDITION.1),
];

/// Messages of an older CSI, whose service has today's path.
const VOLUME_CONDITION: (&str, &str) = ("volumecondition.proto", "volumecondition");

/// A `.proto` file, in `testdata`, with every shape that the log form has to handle.
pub const TEST_FILE: (&str, &str) = ("sanitizer.proto", "sanitizer.test");

/// Paths relative to `csi-proto`.
const PROTO: &str = "proto";
const GENERATED: &str = "src/gen";
const TEST_PROTO: &str = "codegen/testdata";
const TEST_GENERATED: &str = "src/sanitize";

/// All generated files, as paths relative to `csi-proto`, with their content.
pub fn generate(csi_proto: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let proto = csi_proto.join(PROTO);
    let mut files = Vec::new();
    for (file, package) in FILES {
        let code = generate_file(&proto.join(file), &proto, package)?;
        files.push((Path::new(GENERATED).join(format!("{package}.rs")), code));
    }
    let (file, package) = TEST_FILE;
    let code = generate_file(&csi_proto.join(TEST_PROTO).join(file), &proto, package)?;
    files.push((
        Path::new(TEST_GENERATED).join(format!("{package}.rs")),
        code,
    ));
    Ok(files)
}

/// The code of one `.proto` file: messages, clients, servers, and the log form of each message. `imports` is the folder
/// of imported files.
pub fn generate_file(source: &Path, imports: &Path, package: &str) -> anyhow::Result<String> {
    let include = source.parent().context("a .proto file without a folder")?;
    let mut compiler = protox::Compiler::new([include, imports])?;
    compiler
        .include_source_info(true)
        .include_imports(true)
        .open_file(source)
        .with_context(|| format!("cannot compile {}", source.display()))?;
    let set = compiler.file_descriptor_set();
    let secrets = secret_fields(&compiler.descriptor_pool());
    let scratch = tempfile::tempdir()?;
    let messages = write_messages(set.clone(), package, scratch.path())?;
    let log = sanitize::implementations(&set, package, &secrets);
    let methods = methods::tables(&set, package);
    let code = format!("{messages}\n{log}{methods}");
    let (_, older) = VOLUME_CONDITION;
    Ok(match package == older {
        true => code.replace(&format!("{older}.Controller"), "csi.v1.Controller"),
        false => code,
    })
}

fn write_messages(set: FileDescriptorSet, package: &str, dir: &Path) -> anyhow::Result<String> {
    tonic_prost_build::configure()
        .btree_map(".")
        .skip_debug(["."])
        .client_mod_attribute(".", "#[cfg(feature = \"client\")]")
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .build_transport(false)
        .out_dir(dir)
        .compile_fds(set)?;
    let written: PathBuf = dir.join(format!("{package}.rs"));
    fs::read_to_string(&written).with_context(|| format!("nothing generated for {package}"))
}

/// Full names of the fields that carry the `csi_secret` option.
pub fn secret_fields(pool: &DescriptorPool) -> Vec<String> {
    let Some(option) = pool.get_extension_by_name("csi.v1.csi_secret") else {
        return Vec::new();
    };
    let fields = pool
        .all_messages()
        .flat_map(|message| message.fields().collect::<Vec<_>>());
    let secret = fields.filter(|field| {
        field.options().has_extension(&option)
            && field.options().get_extension(&option).as_bool() == Some(true)
    });
    secret.map(|field| field.full_name().to_owned()).collect()
}
