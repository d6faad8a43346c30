//! Ids of traces and spans, and the sampler.
//!
//! Pure. All programs derive the same ids from the UIDs of objects, and so need not exchange them.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::in_cluster::sha256;

/// The id of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    /// The trace of the object with this UID: the UID itself if it is a random UUID, else its hash.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        random_uuid(uid).map_or_else(|| Self(hashed([uid])), Self)
    }

    /// The trace of repeated work on the object with this UID: the same work with the same goal is the same trace.
    #[must_use]
    pub fn of_work(uid: &str, work: &str, goal: &str) -> Self {
        Self(hashed([uid, work, goal]))
    }

    /// A random trace id, which no other process derives.
    #[must_use]
    pub fn random() -> Self {
        let [SpanId(front), SpanId(back)] = [SpanId::random(), SpanId::random()];
        let mut id = [0; 16];
        for (to, from) in id.iter_mut().zip(front.into_iter().chain(back)) {
            *to = from;
        }
        Self(id)
    }

    /// The span with this name in this trace; every process derives the same id.
    #[must_use]
    pub fn span(self, name: &str) -> SpanId {
        let hash: [u8; 8] = hash(&[&self.0, name.as_bytes()]);
        SpanId(hash)
    }

    /// The root span of the trace.
    #[must_use]
    pub fn root(self) -> SpanId {
        self.span("root")
    }

    /// The last 7 bytes, which are random in every random UUID, as a number.
    fn randomness(self) -> u64 {
        let [.., a, b, c, d, e, f, g] = self.0;
        u64::from_be_bytes([0, a, b, c, d, e, f, g])
    }
}

impl SpanId {
    /// A random span id, for a span that no process must derive.
    #[must_use]
    pub fn random() -> Self {
        // The standard library seeds its hash maps from the operating system; no crate is needed.
        let id = RandomState::new().hash_one(0_u8);
        Self(id.max(1).to_be_bytes())
    }
}

/// Whether this is a UUID of version 4.
pub(super) fn is_random_uuid(text: &str) -> bool {
    random_uuid(text).is_some()
}

/// The 16 bytes of a version 4 UUID written with dashes.
fn random_uuid(uid: &str) -> Option<[u8; 16]> {
    let is_hyphenated = uid.len() == Hyphenated::LENGTH;
    let uuid = Uuid::try_parse(uid).ok().filter(|_| is_hyphenated)?;
    (uuid.get_version_num() == 4).then(|| uuid.into_bytes())
}

fn hashed<const N: usize>(parts: [&str; N]) -> [u8; 16] {
    // UIDs contain no zero byte, so no two lists of parts give the same text.
    let mut text = Vec::new();
    for part in parts {
        if !text.is_empty() {
            text.push(0);
        }
        text.extend_from_slice(part.as_bytes());
    }
    hash(&[&text])
}

/// The first bytes of the SHA-256 of the concatenated parts.
fn hash<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    let mut first = [0; N];
    if let Some(sha256) = sha256() {
        let mut hash = sha256.start();
        parts.iter().for_each(|part| hash.update(part));
        for (to, from) in first.iter_mut().zip(hash.finish().as_ref()) {
            *to = *from;
        }
    }
    first
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

/// The value of the header `traceparent` in requests below this span.
#[must_use]
pub(super) fn traceparent(trace: TraceId, span: SpanId, sampled: bool) -> String {
    format!("00-{trace}-{span}-{:02x}", u8::from(sampled))
}

/// The span that an annotation `tracing.k8s.io/traceparent` names. Only its ids are used.
#[must_use]
pub(super) fn parse_traceparent(text: &str) -> Option<(TraceId, SpanId)> {
    // Later versions may have more fields after the flags.
    let mut parts = text.split('-');
    let mut part = |length| parts.next().filter(|part: &&str| part.len() == length);
    let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
    let is_hex = |text: &str| text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    if ![version, trace, span, flags].into_iter().all(is_hex) || version == "ff" {
        return None;
    }
    if version == "00" && parts.next().is_some() {
        return None;
    }
    let trace = u128::from_str_radix(trace, 16).ok()?;
    let span = u64::from_str_radix(span, 16).ok()?;
    let (trace, span) = (TraceId(trace.to_be_bytes()), SpanId(span.to_be_bytes()));
    (trace.0 != [0; 16] && span.0 != [0; 8]).then_some((trace, span))
}

/// Chooses the traces to record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// All traces.
    AlwaysOn,
    /// No trace; the driver and the API server still get the ids.
    AlwaysOff,
    /// This share of the traces, between 0 and 1.
    Ratio(f64),
}

impl Sampler {
    /// Whether this trace is recorded. All programs with the same share decide alike.
    #[must_use]
    pub fn takes(self, trace: TraceId) -> bool {
        match self {
            Self::AlwaysOn => true,
            Self::AlwaysOff => false,
            Self::Ratio(share) => {
                // The threshold of W3C's and OpenTelemetry's consistent sampling, so collectors can sample further.
                const ALL: f64 = (1_u64 << 56) as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the share is between 0 and 1"
                )]
                let rejected = ((1.0 - share) * ALL) as u64;
                trace.randomness() >= rejected
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "9a7c1f0e-1111-4222-8333-444455556666";

    #[test]
    fn o_12_the_trace_of_an_object_is_its_uid() {
        let rows = [
            (UID, "9a7c1f0e111142228333444455556666"),
            (
                "9A7C1F0E-1111-4222-8333-444455556666",
                "9a7c1f0e111142228333444455556666",
            ),
            // printf UID | sha256sum
            (
                "9a7c1f0e-1111-1222-8333-444455556666",
                "e68a7dc764ece2b2a1c29c4c4eb06a32",
            ),
            ("uid-1", "4a49acf8a6bd727728495d1e541a8408"),
            ("", "e3b0c44298fc1c149afbf4c8996fb924"),
            (
                "9a7c1f0eü1111-4222-8333-44445555666",
                "6a278e2f8c1aa172563bba37c5c16f24",
            ),
        ];
        for (uid, trace) in rows {
            assert_eq!(TraceId::of(uid).to_string(), trace, "{uid}");
        }
    }

    #[test]
    fn o_12_all_programs_know_the_root_by_the_trace() {
        let root = TraceId::of(UID).root();
        assert_eq!(root, TraceId::of(UID).root());
        assert_ne!(root, TraceId::of(UID).span("provision"));
        assert_ne!(root, TraceId::of("another").root());
    }

    #[test]
    fn o_17_the_same_work_on_the_same_goal_is_the_same_trace() {
        let expand = |goal| TraceId::of_work(UID, "expand", goal);
        assert_eq!(expand("2Gi"), expand("2Gi"));
        let others = [
            expand("3Gi"),
            TraceId::of(UID),
            TraceId::of_work(UID, "modify", "2Gi"),
            TraceId::of_work("another", "expand", "2Gi"),
        ];
        assert!(!others.contains(&expand("2Gi")));
    }

    #[test]
    fn o_22_the_header_has_the_ids_and_whether_it_is_recorded() {
        let (trace, span) = (TraceId::of(UID), SpanId([0, 1, 2, 3, 4, 5, 6, 255]));
        let start = "00-9a7c1f0e111142228333444455556666-00010203040506ff";
        assert_eq!(traceparent(trace, span, true), format!("{start}-01"));
        assert_eq!(traceparent(trace, span, false), format!("{start}-00"));
        assert_eq!(
            parse_traceparent(&format!("{start}-01")),
            Some((trace, span))
        );
    }

    #[test]
    fn o_25_an_annotation_is_a_link_if_it_is_well_formed() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let zeros = "0".repeat(32);
        let rows = [
            (format!("00-{trace}-{span}-01"), true),
            (format!("00-{trace}-{span}-00"), true),
            (format!("cc-{trace}-{span}-01-what-comes"), true),
            (format!("00-{trace}-{span}-01-x"), false),
            (format!("ff-{trace}-{span}-01"), false),
            (format!("00-{}-{span}-01", trace.to_uppercase()), false),
            (format!("00-{zeros}-{span}-01"), false),
            (format!("00-{trace}-{}-01", "0".repeat(16)), false),
            (format!("00-{trace}-{span}"), false),
            (format!("00-{trace}-+0f067aa0ba902b7-01"), false),
            ("x".repeat(1 << 20), false),
            (String::new(), false),
        ];
        for (text, valid) in rows {
            assert_eq!(parse_traceparent(&text).is_some(), valid, "{text:.80}");
        }
    }

    #[test]
    fn o_9_a_quarter_of_the_claims_is_a_quarter_and_the_same_in_all_programs() {
        let share = Sampler::Ratio(0.25);
        let ids: Vec<_> = (0..10_000).map(|_| TraceId::random()).collect();
        let taken = ids.iter().filter(|id| share.takes(**id)).count();
        assert!((2_300..=2_700).contains(&taken), "{taken}");
        for id in ids {
            assert!(Sampler::AlwaysOn.takes(id) && !Sampler::AlwaysOff.takes(id));
            assert!(Sampler::Ratio(1.0).takes(id));
            assert!(!share.takes(id) || Sampler::Ratio(0.5).takes(id));
        }
        let last = TraceId([255; 16]);
        assert!(share.takes(last) && !share.takes(TraceId([0; 16])));
        assert!(!Sampler::Ratio(0.0).takes(last));
    }
}
