//! The files that a confined server may access, as rules of Landlock.
//!
//! A rule applies to a folder and everything in it, because a file that the server reads again may have been replaced by
//! a new file. A file that is already open stays usable, whatever the rules are.

use crate::config::{HttpAddress, Listen, Settings};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The version of Landlock whose rights the rules handle. An older kernel enforces the rights that it has.
const VERSION: ABI = ABI::V5;

/// The text file with the pattern of the paths of core files.
const CORE_PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// The folders that the server accesses after its start, each with the rights that it needs there.
pub type Folders = BTreeMap<PathBuf, BitFlags<AccessFs>>;

/// Returns the folders that a server with these settings accesses after its start.
pub fn folders(settings: &Settings) -> Folders {
    let mut folders = Folders::new();
    let mut add = |folder: Option<&Path>, rights: BitFlags<AccessFs>| {
        if let Some(folder) = folder {
            *folders.entry(folder.to_owned()).or_default() |= rights;
        }
    };
    for path in files_read_again(settings) {
        // The path may be a symbolic link, and the file that replaces its target is usually in the target's folder.
        let target = std::fs::canonicalize(path).ok();
        add(path.parent(), AccessFs::ReadFile.into());
        add(target.as_deref().and_then(Path::parent), AccessFs::ReadFile.into());
    }
    if let Some(path) = &settings.memory_file {
        // A graceful stop writes the .meta file under another name, renames it, and syncs the folder.
        let rights =
            AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::RemoveFile | AccessFs::ReadDir;
        add(path.parent(), rights);
    }
    if let Some(path) = &settings.process.pid_file {
        add(path.parent(), AccessFs::RemoveFile.into());
    }
    if let Some(path) = &settings.control_path {
        add(path.parent(), AccessFs::RemoveFile.into());
    }
    if let Listen::Unix { path, .. } = &settings.listen {
        add(path.parent(), AccessFs::RemoveFile.into());
    }
    if let Some(HttpAddress::Unix { path, .. }) = settings.http.as_ref().map(|http| &http.address) {
        add(path.parent(), AccessFs::RemoveFile.into());
    }
    if settings.process.core_files {
        let rights = AccessFs::MakeReg | AccessFs::WriteFile | AccessFs::ReadFile;
        add(core_folder().as_deref(), rights);
    }
    folders
}

/// Returns the files that a running server reads again: certificates at `refresh_certs` and SIGHUP, passwords, and the
/// file of `-o conf_file`.
fn files_read_again(settings: &Settings) -> impl Iterator<Item = &PathBuf> {
    let tls = settings.tls.iter();
    let certificates =
        tls.flat_map(|tls| [Some(&tls.chain_file), tls.key_file.as_ref(), tls.ca_file.as_ref()]);
    let passwords = [settings.auth_file.as_ref(), settings.sasl_password_file.as_ref()];
    let options = settings.source.conf_file.as_ref();
    certificates.chain(passwords).flatten().chain(options)
}

/// Returns the folder in which the kernel writes a core file of this process, or `None` if the kernel gives the core file
/// to a program.
fn core_folder() -> Option<PathBuf> {
    let pattern = std::fs::read_to_string(CORE_PATTERN).ok()?;
    match pattern.as_bytes().first() {
        Some(b'|' | b'@') => None,
        Some(b'/') => Path::new(pattern.trim_end()).parent().map(Path::to_owned),
        _ => std::env::current_dir().ok(),
    }
}

/// Denies all other access to files to the calling thread and the threads that it creates. Logs what the kernel enforces:
/// a kernel that lacks Landlock does not prevent the start.
pub fn restrict(folders: &Folders) {
    match try_restrict(folders) {
        Ok(RulesetStatus::NotEnforced) => tracing::warn!(
            "drop_privileges: the kernel lacks Landlock, so the access to files is not limited: enable Landlock \
             (Linux 5.13 with lsm=landlock), or limit the access by a sandbox"
        ),
        Ok(status) => {
            let extent = match status {
                RulesetStatus::FullyEnforced => "limited",
                _ => "limited as far as this kernel can",
            };
            tracing::info!(
                "drop_privileges: the access to files is {extent}: {}",
                describe(folders)
            );
        }
        Err(error) => {
            tracing::warn!("drop_privileges: the access to files is not limited: {error}");
        }
    }
}

fn try_restrict(folders: &Folders) -> Result<RulesetStatus, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(VERSION))?
        .create()?;
    for (folder, &rights) in folders {
        match PathFd::new(folder) {
            Ok(opened) => ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?,
            Err(error) => tracing::warn!(
                "drop_privileges: the files in {} will not be accessible: {error}",
                folder.display()
            ),
        }
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

/// Returns the folders and the rights in them as text.
fn describe(folders: &Folders) -> String {
    if folders.is_empty() {
        return "no file can be opened or changed".to_owned();
    }
    let mut text = String::new();
    for (folder, rights) in folders {
        let separator = if text.is_empty() { "" } else { "; " };
        let names: Vec<String> = rights.iter().map(|right| format!("{right:?}")).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{} in {}", names.join(", "), folder.display());
    }
    text
}
