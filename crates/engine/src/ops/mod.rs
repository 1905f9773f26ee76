//! The operations of a worker: what a [`Handle`] does to the item of a key.

mod arithmetic;
mod cache;
mod delete;
mod get;
mod handle;
mod inspect;
mod item;
mod reservation;
mod store;

pub use arithmetic::{ArithmeticConditions, ArithmeticOutcome, Delta, Initial};
pub use cache::Cache;
pub use delete::{DeleteOutcome, Leave};
pub use get::{GetOptions, Met, Vivify};
pub use handle::Handle;
pub use inspect::{Life, Seen};
pub use item::{ItemView, Pinned};
pub use reservation::{Reservation, ReserveError, class_of_size};
pub use store::{StoreConditions, StoreMode, StoreOutcome};
