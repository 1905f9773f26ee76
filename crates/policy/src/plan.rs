//! What a policy answers.

use slabwise_base::ClassId;

/// Page moves, to be carried out in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Empty when all is well.
    pub moves: Vec<PageMove>,
}

/// One page's move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageMove {
    /// Gives the page.
    pub victim: ClassId,
    /// Takes it; `None` is the free pool.
    pub receiver: Option<ClassId>,
    /// Why, for the record of moves.
    pub reason: &'static str,
}
