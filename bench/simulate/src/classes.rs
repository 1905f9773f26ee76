//! Exact misses of memcached's classes: each class is an LRU of its own, with a fixed number of chunks.
//!
//! ```text
//! request --> the class with the smallest chunks that hold the item --> its StackDistances --> misses at three sizes
//! ```
//!
//! The program's main module calls it.

use serde::Serialize;
use slabwise_profile::StackDistances;
use slabwise_replay::workload::{Op, Request};
use std::collections::HashMap;
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

/// The stacks of all classes.
pub struct Classes {
    classes: Vec<(Class, StackDistances, ClassMisses)>,
    /// The index of the class of each key.
    keys: HashMap<u64, usize>,
}

impl Classes {
    /// Starts with these classes.
    pub fn new(mut classes: Vec<Class>) -> Classes {
        classes.sort_by_key(|class| class.chunk_size_bytes);
        let empty = |class: Class| {
            let misses = ClassMisses { class: class.number, gets: 0, misses: [0; 3] };
            (class, StackDistances::default(), misses)
        };
        Classes { classes: classes.into_iter().map(empty).collect(), keys: HashMap::new() }
    }

    /// Executes a request for an item of this size, and counts its misses if `is_counted`.
    pub fn request(&mut self, request: &Request, size_bytes: u64, is_counted: bool) {
        let fits = |class: &Class| class.chunk_size_bytes >= size_bytes;
        let found = self.classes.iter().position(|(class, ..)| fits(class));
        let Some(index) = found.or(self.classes.len().checked_sub(1)) else { return };
        if let Some(before) = self.keys.insert(request.key, index)
            && before != index
        {
            self.classes[before].1.forget(request.key);
        }
        let (class, stack, counts) = &mut self.classes[index];
        if request.op == Op::Delete {
            return stack.forget(request.key);
        }
        let distance = stack.reference(request.key);
        if request.op == Op::Get && is_counted {
            counts.gets += 1;
            let sizes = [class.chunks / 2, class.chunks, 2 * class.chunks];
            for (misses, chunks) in counts.misses.iter_mut().zip(sizes) {
                *misses += u64::from(distance.is_none_or(|distance| distance >= chunks));
            }
        }
    }

    /// Returns the counts of all classes.
    pub fn counts(self) -> Vec<ClassMisses> {
        self.classes.into_iter().map(|(.., counts)| counts).collect()
    }
}
