//! `cargo run -p csi-codegen`: rewrites `csi-proto/src/gen` from `csi-proto/proto`.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let csi_proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    csi_codegen::generate(&csi_proto.join("proto"), &csi_proto.join("src/gen"))
}
