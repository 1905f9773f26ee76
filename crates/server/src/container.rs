//! `slabwise memory`: the memory request and limit of a container. `docs/memory.md` describes them.
//!
//! A control group also counts memory that the kernel allocates for the server. This module adds its maximum to the
//! [`MemoryModel`], which contains only the memory of the process:
//!
//! ```text
//!   MemoryModel --total, parts--> lines --> stdout
//!   page tables, sockets ----------^
//! ```
//!
//! Invariant: the limit is at least the sum of the printed parts.

use crate::config::{Settings, THREADS_DEFAULT_MAX};
use crate::memory_model::{MemoryModel, mib};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// The number of processors that the container is assumed to have: enough for the largest default number of workers.
pub(crate) const PROCESSORS_ASSUMED: usize = THREADS_DEFAULT_MAX;
/// The memory that an entry of a page table maps, divided by the size of the entry.
const MAPPED_PER_TABLE_BYTE: u64 = 4096 / 8;
/// The memory of tables with few entries, such as those of libraries and stacks, in bytes.
const SPARSE_TABLES_BYTES: u64 = MIB;
/// The kernel's memory for a connection in bytes: its structures, and small buffers to send and receive.
const SOCKET_BYTES: u64 = 16 * KIB;

pub(crate) const HELP: &str = "\
Usage: slabwise memory [options of a server]

Prints the memory request and limit for a container of a server with these
options, and the parts of the limit. It starts no server. Request and limit are
equal, so that the system does not evict the container for exceeding its request.
Without -t, they are enough for four workers, the largest default.

  slabwise memory -m 4096 -c 4096 -o http=0.0.0.0:9150,http_insecure

  --help   print this text
";

/// Returns the request and the limit in the notation of Kubernetes, and a line for each part.
pub(crate) fn lines(settings: &Settings) -> String {
    let model = MemoryModel::new(settings);
    let process = model.total_bytes();
    let connections = u64::from(settings.connections_max);
    let mut parts = vec![(model.items_bytes(), "items (-m)".to_owned())];
    parts.extend(model.parts().iter().map(|part| (part.bytes_max, part.description.clone())));
    parts.push((
        process / MAPPED_PER_TABLE_BYTE + SPARSE_TABLES_BYTES,
        "kernel: page tables".to_owned(),
    ));
    parts.push((
        connections * SOCKET_BYTES,
        format!(
            "kernel: sockets of {connections} connections (-c), {} KiB each",
            SOCKET_BYTES / KIB
        ),
    ));
    let limit = parts.iter().map(|(bytes, _)| bytes).sum::<u64>().div_ceil(MIB);
    let mut lines = format!("request: {limit}Mi\nlimit: {limit}Mi\n");
    for (bytes, description) in parts {
        lines += &format!("{:>10} MiB  {description}\n", mib(bytes));
    }
    lines
        + "not included: larger buffers of sockets, two more copies of the index during an upgrade, and a file of -e that is \
             not on a RAM disk\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Request, parse};
    use std::io::Write;

    /// Returns the limit that the text names, in MiB.
    fn limit_mib(arguments: &[&str]) -> u64 {
        let options = arguments.iter().map(Into::into);
        let Ok(Request::Serve { settings, .. }) = parse(options, PROCESSORS_ASSUMED) else {
            panic!("{arguments:?} must start the server");
        };
        let text = lines(&settings);
        let value = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_suffix("Mi"));
            value.and_then(|value| value.parse::<u64>().ok()).expect("a number of MiB")
        };
        let limit = value("limit: ");
        assert_eq!(value("request: "), limit);
        assert!(MemoryModel::new(&settings).total_bytes() < limit * MIB);
        limit
    }

    #[test]
    fn the_limit_covers_the_memory_of_the_process_and_of_the_kernel() {
        let limit = limit_mib(&["-m", "1024"]);
        assert!(limit > 1024);
        // A connection has 2 KiB, 32 KiB for its buffers, and 16 KiB of the kernel; a 512th of them for page tables.
        let more_connections = limit_mib(&["-m", "1024", "-c", "17408"]);
        let difference_kib = 16384 * (2 + 32 + 16) + 16384 * 34 / 512;
        assert!((more_connections - limit).abs_diff(difference_kib / 1024) <= 1);
    }

    #[test]
    fn the_limit_covers_four_workers_or_those_of_the_options() {
        let limit = limit_mib(&["-m", "1024"]);
        assert_eq!(limit, limit_mib(&["-m", "1024", "-t", "4"]));
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        writeln!(file, "-t 16").expect("the file can be written");
        let file = format!("conf_file={}", file.path().display());
        let limit_of_file = limit_mib(&["-m", "1024", "-o", &file]);
        assert!(limit_of_file > limit);
        assert_eq!(limit_of_file, limit_mib(&["-m", "1024", "-t", "16"]));
    }
}
