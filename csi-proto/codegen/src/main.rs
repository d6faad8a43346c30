//! `cargo run -p csi-codegen`: rewrites the generated code of `csi-proto`.

use std::path::Path;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let csi_proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (path, code) in csi_codegen::generate(&csi_proto)? {
        let path = csi_proto.join(path);
        std::fs::write(&path, code).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
