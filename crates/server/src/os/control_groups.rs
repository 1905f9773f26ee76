//! The control groups (cgroups) of this process, which limit its memory and its processors.
//!
//! ```text
//!   /proc/self/cgroup     the group's path    --.
//!   /proc/self/mountinfo  where it is mounted --+-> the group's folder and those of its parents
//! ```
//!
//! A limit of a group also applies to the groups below it. Both versions of control groups may be mounted at once. A
//! missing or unknown file counts as empty. If the mounted folder does not contain the group's path, as in a container,
//! the mounted folder counts as the group.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group that this process belongs to.
#[derive(Debug)]
pub struct Group {
    pub version: Version,
    pub folder: PathBuf,
}

/// The version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Each controller belongs to one of several hierarchies of groups.
    V1,
    /// All controllers belong to one hierarchy of groups.
    V2,
}

impl Group {
    /// Returns the contents of a file of the group.
    pub fn read(&self, root: &Path, name: &str) -> String {
        let folder = self.folder.strip_prefix("/").unwrap_or(&self.folder);
        fs::read_to_string(root.join(folder).join(name)).unwrap_or_default()
    }
}

/// Returns the groups of this process, and their parents, that may have limits of a controller such as `memory`. `root`
/// is the root of the file systems: `/`, or another folder in tests.
pub fn all(root: &Path, controller: &str) -> Vec<Group> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mut all = Vec::new();
    for mount in mounts.lines().filter_map(|line| Mount::parse(line, controller)) {
        let version = mount.version;
        let group = groups.lines().find_map(|line| version.group(line, controller));
        let folders = group.map(|group| mount.folders(group)).unwrap_or_default();
        all.extend(folders.into_iter().map(|folder| Group { version, folder }));
    }
    all
}

impl Version {
    /// Returns the path of the group from a line of `/proc/self/cgroup`, `NUMBER:CONTROLLERS:PATH`. Returns `None` if the
    /// line is about another hierarchy than that of the controller.
    fn group<'l>(self, line: &'l str, controller: &str) -> Option<&'l Path> {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_this = match self {
            Version::V1 => controllers.split(',').any(|name| name == controller),
            Version::V2 => number == "0" && controllers.is_empty(),
        };
        is_this.then_some(Path::new(path))
    }
}

/// The mount of a hierarchy of control groups.
#[derive(Debug)]
struct Mount {
    version: Version,
    /// The path of the group whose folder is mounted, as in `/proc/self/cgroup`.
    group: PathBuf,
    /// The folder at which it is mounted.
    folder: PathBuf,
}

impl Mount {
    /// Parses a line of `/proc/self/mountinfo`: `ID PARENT DEVICE GROUP FOLDER OPTIONS... - TYPE SOURCE OPTIONS`. Returns
    /// `None` for other file systems, and for hierarchies without the controller.
    fn parse(line: &str, controller: &str) -> Option<Mount> {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        let mut file_system = file_system.split(' ');
        let (kind, options) = (file_system.next()?, file_system.nth(1)?);
        let version = match kind {
            "cgroup" if options.split(',').any(|option| option == controller) => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let (group, folder) = (unescaped(mount.next()?), unescaped(mount.next()?));
        Some(Mount { version, group, folder })
    }

    /// Returns the folders of a group and of its parents, as far as they are mounted. A container may see only its own
    /// group, mounted under a path that the group's path does not contain. The mounted folder is then this group.
    fn folders(&self, group: &Path) -> Vec<PathBuf> {
        let below = group.strip_prefix(&self.group).ok();
        let below = below.filter(|path| !path.components().any(|part| part.as_os_str() == ".."));
        let folder = below.map_or_else(|| self.folder.clone(), |path| self.folder.join(path));
        let is_mounted = |folder: &&Path| folder.starts_with(&self.folder);
        folder.ancestors().take_while(is_mounted).map(Path::to_owned).collect()
    }
}

/// Returns a path of `/proc/self/mountinfo` without its escapes: the kernel writes a space, tab, line feed or backslash as
/// a backslash and three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut path = text.to_owned();
    for (escape, character) in [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")] {
        path = path.replace(escape, character);
    }
    path.into()
}

#[cfg(test)]
pub mod test_support {
    //! Folders that have the files of a machine.

    use tempfile::TempDir;

    /// Makes a temporary folder with these files, each a path and its content.
    pub fn folder_with(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().expect("a temporary folder can be created");
        std::fs::create_dir_all(root.path().join("proc/self")).expect("the folder is writable");
        for (path, content) in files {
            let path = root.path().join(path);
            let folder = path.parent().expect("the path has a folder");
            std::fs::create_dir_all(folder).expect("the folder is writable");
            std::fs::write(&path, content).expect("the folder is writable");
        }
        root
    }
}
