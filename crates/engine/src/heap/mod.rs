//! Pages beside the classes that own them.
mod pool;

pub use pool::Pool;
