//! Small random problems for tests, and a simulated cache that stores every item individually.

use super::{Chaining, ChunkLayout, Demand, Loss};
use slabwise_base::Random;

/// Returns a random number from `least` to `most`.
pub fn between(random: &mut Random, least: usize, most: usize) -> usize {
    least + random.below((most - least + 1) as u64) as usize
}

/// Returns a random layout with at most `steps_max` possible chunk sizes. Some layouts have a page size, and some have
/// chaining.
pub fn layout(random: &mut Random, steps_max: usize) -> ChunkLayout {
    let chunk_align_bytes = [1, 4, 8][random.below(3) as usize];
    let steps_min = between(random, 1, 3);
    let steps = steps_min + between(random, 2, steps_max - 1);
    let chunk_size_bytes_max = steps * chunk_align_bytes;
    let page = chunk_size_bytes_max * between(random, 1, 4) + between(random, 0, 7);
    let chaining = Chaining {
        head_size_bytes: between(random, 2, chunk_size_bytes_max),
        link_size_bytes: 1,
        body_header_size_bytes: between(random, 0, chunk_size_bytes_max / 2),
    };
    ChunkLayout {
        page_size_bytes: (random.below(3) > 0).then_some(page),
        chunk_size_bytes_min: steps_min * chunk_align_bytes,
        chunk_size_bytes_max,
        chunk_align_bytes,
        chaining: (random.below(2) == 0).then_some(chaining),
    }
}

/// Returns up to `demands_max` random demands that the layout can store. Some of them have a byte value of 0.
pub fn demands(random: &mut Random, layout: &ChunkLayout, demands_max: usize) -> Vec<Demand> {
    let largest = layout.chunk_size_bytes_max;
    let size_max = if layout.chaining.is_some() { 4 * largest } else { largest };
    let is_weighted = random.below(2) == 0;
    let count = between(random, 1, demands_max);
    let demand = |_| Demand {
        size_bytes: between(random, 1, size_max),
        items: 1 + random.below(20),
        byte_value: if is_weighted { random.below(5) as f64 / 2.0 } else { 1.0 },
    };
    (0..count).map(demand).collect()
}

/// Returns demands whose distribution of sizes has several peaks, over the whole range of the layout.
pub fn demands_with_peaks(random: &mut Random, layout: &ChunkLayout) -> Vec<Demand> {
    let mut demands = Vec::new();
    for _ in 0..1 + random.below(4) {
        let middle = between(random, 1, layout.chunk_size_bytes_max);
        let width = between(random, 1, layout.chunk_size_bytes_max / 4);
        for _ in 0..1 + random.below(200) {
            // The sum of two uniformly distributed numbers has a triangular distribution.
            let size_bytes = middle + between(random, 0, width) + between(random, 0, width);
            let size_bytes = size_bytes.saturating_sub(width).max(1);
            if size_bytes <= layout.chunk_size_bytes_max {
                demands.push(Demand { size_bytes, items: 1 + random.below(50), byte_value: 1.0 });
            }
        }
    }
    demands.push(Demand { size_bytes: layout.chunk_size_bytes_max, items: 1, byte_value: 1.0 });
    demands
}

/// Returns a random table of this layout with up to `class_count_max` classes.
pub fn table(random: &mut Random, layout: &ChunkLayout, class_count_max: usize) -> Vec<usize> {
    let (align, largest) = (layout.chunk_align_bytes, layout.chunk_size_bytes_max);
    let (first, last) = (layout.chunk_size_bytes_min / align, largest / align);
    let mut table = vec![largest];
    table.extend(
        (0..random.below(class_count_max as u64)).map(|_| between(random, first, last) * align),
    );
    table.sort();
    table.dedup();
    table
}

/// Returns every table of at most `class_count_max` classes that has all the sizes `kept`.
pub fn every_table(
    layout: &ChunkLayout,
    kept: &[usize],
    class_count_max: usize,
) -> Vec<Vec<usize>> {
    let steps = layout.chunk_size_bytes_min..layout.chunk_size_bytes_max;
    let sizes: Vec<usize> = steps.step_by(layout.chunk_align_bytes).collect();
    assert!(sizes.len() < 16, "there are fewer than 16 possible sizes, not {}", sizes.len());
    let table_of = |set: u32| {
        let has = |place: usize| set >> place & 1 == 1;
        let chosen = sizes.iter().enumerate().filter(|&(place, _)| has(place));
        let table = chosen.map(|(_, &size)| size).chain([layout.chunk_size_bytes_max]);
        table.collect::<Vec<usize>>()
    };
    let tables = (0..1 << sizes.len()).map(table_of);
    let is_allowed = |table: &Vec<usize>| {
        table.len() <= class_count_max && kept.iter().all(|size| table.contains(size))
    };
    tables.filter(is_allowed).collect()
}

/// Returns the chunks of one item. For each chunk it returns the size of the chunk, and the number of its bytes that
/// hold item data.
pub fn chunks_of(size_bytes: usize, table: &[usize], layout: &ChunkLayout) -> Vec<(usize, usize)> {
    let chunk_for = |bytes: usize| {
        let bytes = bytes.min(layout.chunk_size_bytes_max);
        *table.iter().find(|&&chunk| chunk >= bytes).expect("the largest chunk holds these bytes")
    };
    if size_bytes <= layout.chunk_size_bytes_max {
        return vec![(chunk_for(size_bytes), size_bytes)];
    }
    let chaining =
        layout.chaining.expect("only a layout with chaining has items larger than a chunk");
    let own = chaining.head_size_bytes - chaining.link_size_bytes;
    let mut chunks = vec![(chunk_for(chaining.head_size_bytes), own)];
    let mut left = size_bytes - own;
    while left > 0 {
        let chunk = chunk_for(left + chaining.body_header_size_bytes);
        let part = left.min(chunk - chaining.body_header_size_bytes);
        chunks.push((chunk, part));
        left -= part;
    }
    chunks
}

/// Returns the loss of a cache that stores these items one by one.
pub fn loss_by_simulation(demands: &[Demand], table: &[usize], layout: &ChunkLayout) -> Loss {
    let mut loss = Loss::default();
    for demand in demands {
        let chunks = chunks_of(demand.size_bytes, table, layout);
        let weight = demand.items as f64 * demand.byte_value;
        let mut chained = 0;
        if let (Some(chaining), true) = (layout.chaining, chunks.len() > 1) {
            chained =
                chaining.link_size_bytes + (chunks.len() - 1) * chaining.body_header_size_bytes;
        }
        loss.chained_bytes += weight * chained as f64;
        for (chunk, _) in &chunks {
            if let Some(page) = layout.page_size_bytes {
                let chunks_per_page = page / chunk;
                let end = page - chunks_per_page * chunk;
                loss.page_end_bytes += weight * end as f64 / chunks_per_page as f64;
            }
        }
        let taken: usize = chunks.iter().map(|(chunk, _)| chunk).sum();
        loss.inside_bytes += weight * (taken - demand.size_bytes - chained) as f64;
    }
    loss
}

/// Returns true if two sums differ only by rounding errors.
pub fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
}
