//! Replies of the meta protocol.

mod hit;
mod lifetime;
mod replies;

pub(crate) use hit::Hit;
pub(crate) use replies::{deleted, examined, missed, number, seen_of, stored};
