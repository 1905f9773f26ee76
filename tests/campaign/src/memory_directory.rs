//! The directory of a server's memory file (`-e`). If the system allows it, the directory is a small file system, which
//! a fault can fill.
//!
//! A mount needs privileges, and must not outlive the campaign. So the campaign first enters a mount namespace: it runs
//! `unshare`, which runs the campaign again. If this is not possible, the fault is left out.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The parent of the directories, if it exists. It is in memory on all common systems.
const PARENT: &str = "/dev/shm";
/// The environment variable of a campaign in a mount namespace of its own.
const NAMESPACE_VARIABLE: &str = "SLABWISE_CAMPAIGN_NAMESPACE";

/// Runs the program again in a mount namespace of its own. Returns if it is in one already, or if this is not possible.
pub fn enter_namespace() {
    if can_mount() {
        return;
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::getuid().is_root() {
            command.arg("--map-root-user");
        }
        command
    };
    let trial = unshare().args(["mount", "-t", "tmpfs", "none", "/tmp"]).output();
    let error = match (trial, std::env::current_exe()) {
        (Ok(output), Ok(program)) if output.status.success() => unshare()
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(NAMESPACE_VARIABLE, "1")
            .exec()
            .to_string(),
        (Ok(output), Ok(_)) => String::from_utf8_lossy(&output.stderr).into_owned(),
        (Err(error), _) | (_, Err(error)) => error.to_string(),
    };
    println!("no file system becomes full, because unshare or mount failed: {}", error.trim());
}

/// True if the campaign is in a mount namespace of its own.
pub fn can_mount() -> bool {
    std::env::var_os(NAMESPACE_VARIABLE).is_some()
}

/// The directory of a memory file.
#[derive(Debug)]
pub struct MemoryDirectory {
    directory: TempDir,
    is_mounted: bool,
}

impl MemoryDirectory {
    /// Creates a directory for the memory file of a server with this memory limit.
    pub fn new(memory_mib: u64) -> io::Result<MemoryDirectory> {
        let directory = TempDir::new_in(PARENT).or_else(|_| tempfile::tempdir())?;
        let mut created = MemoryDirectory { directory, is_mounted: false };
        if can_mount() {
            // With `-o preset=memcached` the first pages of the classes, about 40 MiB, exceed the limit. A graceful stop
            // writes a second file.
            let size = format!("size={}m", memory_mib + memory_mib / 16 + 48);
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", &size, "none"]).arg(created.directory.path());
            run(mount)?;
            created.is_mounted = true;
        }
        Ok(created)
    }

    /// Returns the path of the memory file.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("memory")
    }

    /// Writes another file until the small file system is full.
    pub fn fill(&self) -> io::Result<()> {
        let mut filler = File::create(self.directory.path().join("filler"))?;
        loop {
            match filler.write_all(&[0; 4096]) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes the file that [`MemoryDirectory::fill`] has written.
    pub fn remove_filler(&self) -> io::Result<()> {
        fs::remove_file(self.directory.path().join("filler"))
    }
}

impl Drop for MemoryDirectory {
    fn drop(&mut self) {
        if self.is_mounted {
            let mut unmount = Command::new("umount");
            unmount.arg(self.directory.path());
            if let Err(error) = run(unmount) {
                println!("{error}");
            }
        }
    }
}

/// Runs a command. Returns its stderr as an error if it fails.
fn run(mut command: Command) -> io::Result<()> {
    let output = command.output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}
