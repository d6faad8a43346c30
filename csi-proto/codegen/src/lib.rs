//! Generates `csi-proto`'s code.
//!
//! A program of its own and not a build script: the generated code is checked in, so that a build
//! needs neither `protoc` nor the twenty crates used here, and a reviewer sees what changed.

mod methods;
mod sanitize;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use prost_types::FileDescriptorSet;

/// The `.proto` files, each with the package it declares; the package names the generated file.
pub const FILES: [(&str, &str); 2] = [
    ("csi.proto", "csi.v1"),
    ("pluginregistration.proto", "pluginregistration"),
];

/// Compiles the files of [`FILES`] found in `proto` and writes their code into `out`.
pub fn generate(proto: &Path, out: &Path) -> anyhow::Result<()> {
    for (file, package) in FILES {
        let source = proto.join(file);
        let target = out.join(format!("{package}.rs"));
        let code = generate_file(&source, package)?;
        fs::write(&target, code).with_context(|| format!("cannot write {}", target.display()))?;
    }
    Ok(())
}

/// The code of one `.proto` file: messages, clients, servers, and the log form of each message.
pub fn generate_file(source: &Path, package: &str) -> anyhow::Result<String> {
    let include = source.parent().context("a .proto file without a folder")?;
    let set = protox::Compiler::new([include])?
        .include_source_info(true)
        .include_imports(true)
        .open_file(source)
        .with_context(|| format!("cannot compile {}", source.display()))?
        .file_descriptor_set();
    let secrets = protox_secrets(include, source)?;
    let scratch = tempfile::tempdir()?;
    let messages = write_messages(set.clone(), package, scratch.path())?;
    let log = sanitize::implementations(&set, package, &secrets);
    let methods = methods::tables(&set, package);
    Ok(format!("{messages}\n{log}{methods}"))
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
fn protox_secrets(include: &Path, source: &Path) -> anyhow::Result<Vec<String>> {
    let mut compiler = protox::Compiler::new([include])?;
    compiler.include_imports(true).open_file(source)?;
    let pool = compiler.descriptor_pool();
    let Some(option) = pool.get_extension_by_name("csi.v1.csi_secret") else {
        return Ok(Vec::new());
    };
    let fields = pool
        .all_messages()
        .flat_map(|message| message.fields().collect::<Vec<_>>());
    let secret = fields.filter(|field| {
        field.options().has_extension(&option)
            && field.options().get_extension(&option).as_bool() == Some(true)
    });
    Ok(secret.map(|field| field.full_name().to_owned()).collect())
}
