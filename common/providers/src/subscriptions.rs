//! What became of a subscription that was wrong.

/// The result of mending it at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mended {
    Done,
    /// The API does not let it be done without somebody.
    ByHand,
}
