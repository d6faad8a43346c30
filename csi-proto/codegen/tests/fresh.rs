//! The generated code in the repository equals the generator's output.

use std::path::Path;

#[test]
fn generated_code_is_fresh() -> anyhow::Result<()> {
    let csi_proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (path, code) in csi_codegen::generate(&csi_proto)? {
        let present = std::fs::read_to_string(csi_proto.join(&path))?;
        assert!(
            present == code,
            "{} is stale: run cargo run -p csi-codegen",
            path.display()
        );
    }
    Ok(())
}
