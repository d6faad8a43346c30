//! What becomes of a request to the API server.

use super::Dice;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is applied and answered.
    Applied,
    /// Applied, and the answer is lost.
    Unheard,
    /// Not applied, and nobody knows.
    Lost,
    /// The answer is not waited for any longer, and it is applied at any later time.
    Late,
    /// Not applied, and the caller is told.
    Refused,
}

impl Fate {
    /// What a fault may make of a request.
    pub const FAULTS: [Self; 4] = [Self::Unheard, Self::Lost, Self::Late, Self::Refused];

    /// The same, of one that its process waits for.
    pub const AWAITED: [Self; 3] = [Self::Unheard, Self::Lost, Self::Refused];

    /// A fault once in `rare` times.
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
