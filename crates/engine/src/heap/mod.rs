//! Pages and their free chunks: those of a class, and those that no class owns.
mod pages;
mod pool;

pub use pages::Pages;
pub use pool::Pool;
