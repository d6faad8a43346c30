//! The fate of a request to the API server.

use super::Dice;

/// Whether a request is applied, and whether its caller learns that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The request is applied and answered.
    Applied,
    /// The request is applied, and the response is lost.
    Unheard,
    /// The request is not applied, and gets no response.
    Lost,
    /// The caller gives up waiting, and the request is applied at any later time.
    Late,
    /// The request is not applied, and the caller gets an error.
    Refused,
}

impl Fate {
    /// The fates that a fault may cause.
    pub const FAULTS: [Self; 4] = [Self::Unheard, Self::Lost, Self::Late, Self::Refused];

    /// The same, for a request that its process waits for.
    pub const AWAITED: [Self; 3] = [Self::Unheard, Self::Lost, Self::Refused];

    /// Draws a fault once in `rare` times.
    #[inline]
    pub fn draw(dice: &mut Dice, rare: usize, faults: &[Self]) -> Self {
        if dice.one_in(rare) {
            *dice.of(faults)
        } else {
            Self::Applied
        }
    }

    /// The same for a request that arrives before its process sends the next one, or never.
    #[must_use]
    pub fn in_order(self) -> Self {
        if self == Self::Late {
            Self::Refused
        } else {
            self
        }
    }
}
