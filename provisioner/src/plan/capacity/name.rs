//! The value of the label `managed-by`, which marks this process's own objects.
//!
//! It must stay the same in all versions: after an update the new process has to find the objects of the former one.

/// First part of the value.
const BASE: &str = "external-provisioner";

/// Greatest length of a label's value.
const LONGEST: usize = 63;

/// Length of the hash and two dashes.
const HASH: usize = 10;

/// The value for a provisioner of the whole cluster, or of one node.
///
/// In a value that is too long the first part is cut, and followed by its hash; if the node's name alone is too long,
/// the hash of the whole value replaces it.
#[must_use]
pub fn managed_by(node: Option<&str>) -> String {
    let Some(node) = node else {
        return BASE.to_owned();
    };
    let full = format!("{BASE}-{node}");
    if full.len() <= LONGEST {
        return full;
    }
    match LONGEST.checked_sub(HASH + node.len()) {
        Some(kept @ 1..) => {
            let kept = BASE.get(..kept).unwrap_or(BASE);
            format!("{kept}-{:08x}-{node}", fnv1a(BASE))
        }
        Some(0) | None => format!("{BASE}-{:08x}", fnv1a(&full)),
    }
}

/// FNV-1a, 32 bits: exclusive or, then multiply. (FNV-1 does it the other way round.)
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_260_long_node_names() {
        let node = |length: usize| format!("node{}", "a".repeat(length - 4));
        let name = |length| managed_by(Some(&node(length)));
        assert_eq!(managed_by(None), "external-provisioner");
        assert_eq!(name(42), format!("external-provisioner-{}", node(42)));
        assert_eq!(name(42).len(), 63);
        assert_eq!(name(43), format!("external-p-53f40b57-{}", node(43)));
        assert_eq!(name(43).len(), 63);
        assert_eq!(name(52), format!("e-53f40b57-{}", node(52)));
        assert_eq!(name(53), "external-provisioner-a3607ff1");
        assert_eq!(name(253).len(), 29);
    }
}
