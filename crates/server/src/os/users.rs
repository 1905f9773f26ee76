//! The users of the system.
//!
//! A program that is linked with the C library at run time asks the C library, which knows every source of users, such as
//! LDAP. A static program cannot load the libraries for these sources, and reads only `/etc/passwd`.

use std::io;

/// A user of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub id: u32,
    /// The id of the user's primary group.
    pub group_id: u32,
}

/// Returns the user with this name, or `None` if there is none.
#[cfg(not(target_feature = "crt-static"))]
pub fn named(name: &str) -> io::Result<Option<User>> {
    Ok(nix::unistd::User::from_name(name)?.map(User::from))
}

/// Returns the user with this id, or `None` if there is none.
#[cfg(not(target_feature = "crt-static"))]
pub fn with_id(id: u32) -> io::Result<Option<User>> {
    Ok(nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(id))?.map(User::from))
}

#[cfg(not(target_feature = "crt-static"))]
impl From<nix::unistd::User> for User {
    fn from(user: nix::unistd::User) -> User {
        User { name: user.name, id: user.uid.as_raw(), group_id: user.gid.as_raw() }
    }
}

/// Returns the user with this name, or `None` if there is none.
#[cfg(target_feature = "crt-static")]
pub fn named(name: &str) -> io::Result<Option<User>> {
    find(|user| user.name == name)
}

/// Returns the user with this id, or `None` if there is none.
#[cfg(target_feature = "crt-static")]
pub fn with_id(id: u32) -> io::Result<Option<User>> {
    find(|user| user.id == id)
}

#[cfg(target_feature = "crt-static")]
fn find(matches: impl Fn(&User) -> bool) -> io::Result<Option<User>> {
    match std::fs::read_to_string("/etc/passwd") {
        Ok(text) => Ok(text.lines().filter_map(parse).find(matches)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Parses a line of `/etc/passwd`: `name:password:id:group id:...`.
#[cfg(any(test, target_feature = "crt-static"))]
fn parse(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let (name, _password) = (fields.next()?.to_owned(), fields.next()?);
    let (id, group_id) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(User { name, id, group_id })
}

#[cfg(test)]
mod tests {
    use super::{User, named, parse, with_id};

    #[test]
    fn a_line_of_the_users_file_has_a_name_and_ids() {
        let user = User { name: "daemon".to_owned(), id: 1, group_id: 2 };
        assert_eq!(parse("daemon:x:1:2:daemon:/usr/sbin:/usr/sbin/nologin"), Some(user));
        for line in ["", "daemon", "daemon:x:a:1::", "+::::::", "a:x:1"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn root_is_found_by_name_and_by_id() {
        let root = named("root").expect("users can be read").expect("root exists");
        assert_eq!((root.id, root.group_id), (0, 0));
        assert_eq!(with_id(0).expect("users can be read").map(|it| it.name), Some(root.name));
        assert_eq!(named("no such user").expect("users can be read"), None);
    }
}
