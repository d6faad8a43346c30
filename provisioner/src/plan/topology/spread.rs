//! The first preferred topology of a claim without selected node.
//!
//! Users rely on it: the claims of a StatefulSet go round the zones in the order of their ordinals, and the claims of
//! one pod go to the same zone.

/// A number; its remainder by the number of topologies is the index of the first preferred one.
///
/// A StatefulSet names its claims `<template>-<set>-<ordinal>`: the hash is of the set's name alone,
/// so that all templates of a set agree, and the ordinal moves on by one place. The same hash has
/// been in use since zones were spread at all; another one would separate the volumes of existing
/// sets from those that are still to come.
#[must_use]
pub(super) fn start(claim: &str) -> u32 {
    let Some((base, ordinal)) = split(claim) else {
        return fnv1(claim);
    };
    let set = base.rsplit_once('-').map_or(base, |(_, set)| set);
    fnv1(set).wrapping_add(ordinal)
}

fn split(claim: &str) -> Option<(&str, u32)> {
    let (base, ordinal) = claim.rsplit_once('-')?;
    // The parser alone would take a sign.
    let digits = ordinal.bytes().all(|byte| byte.is_ascii_digit());
    digits.then_some((base, ordinal.parse().ok()?))
}

/// FNV-1, 32 bits: multiply, then exclusive or. (FNV-1a does it the other way round.)
fn fnv1(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash: u32, byte| {
        hash.wrapping_mul(0x0100_0193) ^ u32::from(byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_s_table_of_names() {
        for (claim, hashed, hash, ordinal, [two, three, four]) in [
            ("testpvcA-testset-1", "testset", 0x6162_8cc3, 1, [0, 0, 0]),
            ("testset-2", "testset", 0x6162_8cc3, 2, [1, 1, 1]),
            ("testpvc-testset-3", "testset", 0x6162_8cc3, 3, [0, 2, 2]),
            ("testpvc-testset-4", "testset", 0x6162_8cc3, 4, [1, 0, 3]),
            ("testpvc", "testpvc", 0x6469_4d56, 0, [0, 2, 2]),
            ("data-web-0", "web", 0x4666_1985, 0, [1, 0, 1]),
            ("data-my-web-0", "web", 0x4666_1985, 0, [1, 0, 1]),
            ("web-00", "web", 0x4666_1985, 0, [1, 0, 1]),
            (
                "data-web-4294967296",
                "data-web-4294967296",
                0x9210_9e77,
                0,
                [1, 1, 3],
            ),
            ("data-web-", "data-web-", 0xff4b_5235, 0, [1, 0, 1]),
        ] {
            assert_eq!(fnv1(hashed), hash, "{claim}");
            assert_eq!(start(claim), hash.wrapping_add(ordinal), "{claim}");
            let remainders = [2, 3, 4].map(|divisor| start(claim) % divisor);
            assert_eq!(remainders, [two, three, four], "{claim}");
        }
    }

    #[test]
    fn only_digits_after_a_dash_are_an_ordinal() {
        for claim in ["7", "web-+1", "web--", "web-1a", "", "web-\u{661}"] {
            assert_eq!(start(claim), fnv1(claim), "{claim}");
        }
        assert_eq!(start("web--1"), fnv1("").wrapping_add(1));
        assert_eq!(start("web-4294967295"), fnv1("web").wrapping_sub(1));
    }
}
