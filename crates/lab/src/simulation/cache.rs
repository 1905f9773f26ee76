//! What every simulation is.

pub trait Simulation {
    /// The number of bytes that it holds; never more than its limit.
    fn held_bytes(&self) -> u64;
    /// A request for a key of this size, the one with this number of all; whether it was there. If not, it is brought
    /// in; if it was of another size, it is of this one now.
    fn get(&mut self, key: u32, size_bytes: u32, number: usize) -> bool;
    fn remove(&mut self, key: u32);
}
