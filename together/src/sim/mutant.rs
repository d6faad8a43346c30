//! Faulty processes. Each breaks one rule, and the simulation must catch every one of them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// No fault.
    None,
    /// Requests the other leases, and works, without the head.
    HeadNotRequired,
    /// Works without its own lease.
    OwnNotRequired,
    /// Fences requests by its own lease only.
    FenceWithoutHead,
    /// Releases the head when its own controller is asked to end.
    HeadFirst,
    /// Releases leases while controllers still work.
    ReleasesAtWork,
    /// Treats the other leases as held after the head was lost and taken again.
    KeepsOthers,
    /// Takes a lease of its host as its own, as single sidecars do.
    HostIsOwn,
    /// Takes leases at once, whoever holds them.
    MarkIgnored,
    /// Takes leases at once from processes with another head.
    AnyHead,
    /// Does not request a lost lease again.
    ForgetsOthers,
    /// Does not request the head again.
    ForgetsHead,
    /// Misses a loss that occurs while a lease is being released.
    LossUnheard,
}

impl Mutant {
    pub(super) const ALL: &[Self] = &[
        Self::HeadNotRequired,
        Self::OwnNotRequired,
        Self::FenceWithoutHead,
        Self::HeadFirst,
        Self::ReleasesAtWork,
        Self::KeepsOthers,
        Self::HostIsOwn,
        Self::MarkIgnored,
        Self::AnyHead,
        Self::ForgetsOthers,
        Self::ForgetsHead,
        Self::LossUnheard,
    ];
}
