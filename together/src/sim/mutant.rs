//! Faulty processes. Each breaks one rule; a simulation that does not notice proves nothing.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// The real thing.
    None,
    /// Asks for the others, and works, without the head.
    HeadNotRequired,
    /// Works without its own lease.
    OwnNotRequired,
    /// Lets things pass by its own lease alone.
    FenceWithoutHead,
    /// Gives the head back when its own controller is to end.
    HeadFirst,
    /// Gives leases back while controllers still work.
    ReleasesAtWork,
    /// Takes the other leases for held after the head was lost and taken again.
    KeepsOthers,
    /// Takes a lease of its host for its own, as single sidecars do.
    HostIsOwn,
    /// Takes leases at once whoever holds them.
    MarkIgnored,
    /// Takes leases at once from processes of another head.
    AnyHead,
    /// Does not ask again for a lease that it lost.
    ForgetsOthers,
    /// Does not ask again for the head.
    ForgetsHead,
    /// Is not told of a loss that comes while a lease is given back.
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
