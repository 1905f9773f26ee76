//! Exact misses of memcached's classes: each class is an LRU of its own, with a fixed number of chunks.
//!
//! ```text
//! request --> ClassStacks --> distance --> misses at three sizes of the class
//! ```
//!
//! The program's main module calls it.

use crate::stacks::{ClassStacks, Reference};
use serde::Serialize;
use slabwise_replay::workload::{Op, Request};
use std::str::FromStr;

/// A class of the server, as the argument `NUMBER:CHUNK_SIZE:CHUNKS`.
#[derive(Clone, Debug)]
pub struct Class {
    number: u8,
    chunk_size_bytes: u64,
    chunks: u64,
}

impl FromStr for Class {
    type Err = String;

    fn from_str(text: &str) -> Result<Class, String> {
        let error = || format!("'{text}' is not NUMBER:CHUNK_SIZE:CHUNKS, for example 5:240:1000");
        let numbers: Vec<u64> = text.split(':').map_while(|number| number.parse().ok()).collect();
        let [number, chunk_size_bytes, chunks] = numbers[..] else { return Err(error()) };
        let number = u8::try_from(number).map_err(|_| error())?;
        Ok(Class { number, chunk_size_bytes, chunks })
    }
}

/// The result of a class. The names of the fields are those of the JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassMisses {
    /// The number of the class.
    pub class: u8,
    /// The number of gets.
    pub gets: u64,
    /// The gets that miss with half, with all and with twice the chunks.
    pub misses: [u64; 3],
}

/// The classes and their counts.
pub struct Classes {
    classes: Vec<(Class, ClassMisses)>,
    stacks: ClassStacks,
}

impl Classes {
    /// Starts with these classes.
    pub fn new(mut classes: Vec<Class>) -> Classes {
        classes.sort_by_key(|class| class.chunk_size_bytes);
        let stacks = ClassStacks::new(classes.iter().map(|class| class.chunk_size_bytes).collect());
        let empty = |class: Class| {
            let misses = ClassMisses { class: class.number, gets: 0, misses: [0; 3] };
            (class, misses)
        };
        Classes { classes: classes.into_iter().map(empty).collect(), stacks }
    }

    /// Executes a request for an item of this size, and counts its misses if `is_counted`.
    pub fn request(&mut self, request: &Request, size_bytes: u64, is_counted: bool) {
        let Some(Reference { class, distance }) = self.stacks.request(request, size_bytes) else {
            return;
        };
        if request.op == Op::Get && is_counted {
            let (class, counts) = &mut self.classes[class];
            counts.gets += 1;
            let sizes = [class.chunks / 2, class.chunks, 2 * class.chunks];
            for (misses, chunks) in counts.misses.iter_mut().zip(sizes) {
                *misses += u64::from(distance.is_none_or(|distance| distance >= chunks));
            }
        }
    }

    /// Returns the counts of all classes.
    pub fn counts(self) -> Vec<ClassMisses> {
        self.classes.into_iter().map(|(_, counts)| counts).collect()
    }
}
