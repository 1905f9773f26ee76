//! Detects another steerer on the same server, by the number of page moves that the server counts.
//!
//! ```text
//!   moves that we ordered:    certain ------ possible      (an order without a reply may or may not have moved a page)
//!   moves that were counted:  lower: the counts were reset; between: all are ours; above: somebody else moves pages
//! ```
//!
//! The other case, in which somebody switches the automover on, needs no state: the settings show it.

/// The page moves that this steerer can have caused.
#[derive(Clone, Copy, Debug, Default)]
pub struct OwnMoves {
    /// The count of the server at the last reading; `None` before the first one.
    certain: Option<u64>,
    /// The number of orders since then whose pages may have moved.
    possible: u64,
}

impl OwnMoves {
    /// Records an order that the server may carry out.
    pub fn ordered(&mut self) {
        self.possible += 1;
    }

    /// Records that the server refused an order.
    pub fn refused(&mut self) {
        self.possible = self.possible.saturating_sub(1);
    }

    /// Receives the count of the server. Returns the number of moves that others caused. `is_settled` is true if no former
    /// order can move a page later.
    pub fn observe(&mut self, counted: u64, is_settled: bool) -> u64 {
        let before = self.certain.replace(counted);
        let moved = match before {
            Some(before) if counted >= before => counted - before,
            // The first reading, or the first one after `stats reset`: all moves so far are nobody's.
            _ => 0,
        };
        let foreign = moved.saturating_sub(self.possible);
        self.possible = if is_settled { 0 } else { self.possible.saturating_sub(moved) };
        foreign
    }

    /// Forgets the count, because the next reading is of another process. Orders to it may have been sent already.
    pub fn forget(&mut self) {
        self.certain = None;
    }
}

#[cfg(test)]
mod tests {
    use super::OwnMoves;

    #[test]
    fn moves_that_were_not_ordered_are_foreign() {
        let mut moves = OwnMoves::default();
        assert_eq!(moves.observe(10, true), 0, "they are from before the first reading");
        moves.ordered();
        moves.ordered();
        assert_eq!(moves.observe(11, false), 0);
        assert_eq!(moves.observe(12, true), 0);
        assert_eq!(moves.observe(13, true), 1);
    }

    #[test]
    fn an_order_that_moved_nothing_excuses_no_later_move() {
        let mut moves = OwnMoves::default();
        moves.observe(0, true);
        moves.ordered();
        assert_eq!(moves.observe(0, true), 0);
        assert_eq!(moves.observe(1, true), 1);
    }

    #[test]
    fn a_reset_of_the_counts_is_no_rival() {
        let mut moves = OwnMoves::default();
        moves.observe(100, true);
        assert_eq!(moves.observe(2, true), 0);
        moves.forget();
        assert_eq!(moves.observe(50, true), 0);
    }
}
