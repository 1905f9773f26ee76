//! Files that a start finds at the path of the memory file: slabwise must not overwrite a file of another origin.

use super::warm::{save_one_item, small_config};
use super::{STARTED, TestFile};
use crate::{ColdReason, RestartError};
use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn a_file_of_another_origin_is_refused_and_unchanged() {
    for contents in ["x", "the only copy of a thesis", &"long ".repeat(10_000)] {
        let file = TestFile::new();
        std::fs::write(&file.0, contents).expect("the file is written");
        let refused = file.try_open(&small_config()).map(|_| ());
        let size_bytes = contents.len() as u64;
        assert!(
            matches!(&refused, Err(RestartError::OtherFile { size_bytes: size, .. }) if *size == size_bytes),
            "{refused:?}"
        );
        assert_eq!(std::fs::read_to_string(&file.0).expect("the file exists"), contents);
    }
}

#[test]
fn an_empty_file_is_used() {
    let file = TestFile::new();
    std::fs::write(&file.0, "").expect("the file is written");
    assert_eq!(file.open_cold(&small_config()).1, ColdReason::NothingSaved);
}

#[test]
fn the_file_of_a_process_that_was_killed_is_used_also_with_another_memory_limit() {
    let file = TestFile::new();
    let config = small_config();
    drop(file.open_at(&config, STARTED));
    let mut larger = config.clone();
    larger.memory_limit_bytes *= 2;
    for config in [&config, &larger] {
        assert_eq!(file.open_cold(config).1, ColdReason::NothingSaved);
    }
}

#[test]
fn a_file_that_other_users_can_read_loses_their_access() {
    let file = TestFile::new();
    std::fs::write(&file.0, "").expect("the file is written");
    std::fs::set_permissions(&file.0, Permissions::from_mode(0o666)).expect("the mode is set");
    drop(file.open_cold(&small_config()));
    let mode = std::fs::metadata(&file.0).expect("the file exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_without_the_mark_of_later_versions_is_restored() {
    let (file, config) = (TestFile::new(), small_config());
    save_one_item(&file, &config);
    let memory = OpenOptions::new().write(true).open(&file.0).expect("the memory file exists");
    memory.set_len(config.arena_size_bytes() + 8).expect("the mark is removed");
    drop(memory);
    assert_eq!(file.open_warm(&config).1.items, 1);
}
