//! The blocks of a memory file on its file system: all of them are allocated before the server uses the file.

use super::super::file::MemoryFile;
use super::TestFile;
use super::warm::{save_one_item, small_config};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};

/// The sizes of arenas: less than one write of zeros, exactly one, and parts of several.
const ARENA_SIZES_BYTES: [u64; 3] = [4096, 1 << 20, (5 << 19) + 1];

/// True if the file system has blocks for all bytes of the file.
fn has_all_blocks(file: &TestFile) -> bool {
    let about = std::fs::metadata(&file.0).expect("the file exists");
    about.blocks() * 512 >= about.len()
}

#[test]
fn a_reset_allocates_all_blocks_with_and_without_fallocate() {
    for size_bytes in ARENA_SIZES_BYTES {
        let mut contents = Vec::new();
        let resets: [fn(&MemoryFile, u64); 2] = [
            |file, size_bytes| file.reset(size_bytes).expect("the file system has room"),
            |file, size_bytes| {
                file.mark(size_bytes).expect("the file system has room");
                file.write_zeros(0..size_bytes).expect("the file system has room");
            },
        ];
        for reset in resets {
            let path = TestFile::new();
            reset(&MemoryFile::open(&path.0).expect("the file is opened"), size_bytes);
            assert!(has_all_blocks(&path), "an arena of {size_bytes} bytes");
            contents.push(std::fs::read(&path.0).expect("the file exists"));
        }
        assert_eq!(contents[0].len() as u64, size_bytes + 16);
        assert!(contents[0] == contents[1], "both files have the same bytes");
    }
}

#[test]
fn a_warm_start_allocates_the_holes_of_a_sparse_copy() {
    let (file, config) = (TestFile::new(), small_config());
    save_one_item(&file, &config);
    let bytes = std::fs::read(&file.0).expect("the file exists");
    let copy = OpenOptions::new().write(true).open(&file.0).expect("the file exists");
    copy.set_len(0).expect("the file is emptied");
    copy.set_len(bytes.len() as u64).expect("the file gets a hole");
    for (number, block) in bytes.chunks(4096).enumerate() {
        if block.iter().any(|&byte| byte != 0) {
            copy.write_all_at(block, number as u64 * 4096).expect("the block is written");
        }
    }
    drop(copy);
    assert!(!has_all_blocks(&file), "the file system supports holes");
    assert_eq!(file.open_warm(&config).1.items, 1);
    assert!(has_all_blocks(&file));
}
