//! The operations of a worker: the methods of [`Handle`], each of which reads or changes the item of a key.

mod allocation;
mod change;
mod get;
mod handle;
mod item;
#[cfg(all(test, not(loom)))]
mod lock_tests;
mod own_spares;
mod reservation;
#[cfg(all(test, not(loom)))]
mod spare_tests;
mod store;

pub use change::{
    ArithmeticConditions, ArithmeticOutcome, DeleteOutcome, Delta, Initial, Replacement,
};
pub use get::{GetEffects, GetOptions, ItemInfo, Validity, Vivify};
pub use handle::{Cache, Handle};
pub use item::{ItemView, Pinned};
pub use reservation::{Reservation, ReserveError, class_of_size};
pub use store::{StoreConditions, StoreMode, StoreOutcome};
