//! Keeps the mode of the automover: switches it off, remembers the former mode in the state file, and restores it.
//!
//! ```text
//!   take_over:  same process as in the state file? --yes--> the former mode is that of the file
//!                          '--no--> the former mode is the present one; write it to the file
//!               then: slabs automove 0
//!   give_back:  slabs automove FORMER, unless somebody has changed the mode; then the file has no former mode
//! ```
//!
//! Invariants: the file has the former mode whenever the server's mode may be a consequence of ours; a mode that somebody
//! else has set is never changed by `give_back`.

use crate::dialogue::set_automove;
use crate::error::SteerError;
use crate::saved::{OFF, Saved, StateFile};
use crate::split::Split;
use slabwise_client::Connection;
use slabwise_observer::counters::ProcessIdentity;
use slabwise_observer::settings::Settings;
use std::io::{Read, Write};
use std::path::Path;

/// The keeper of the automover's mode of one server.
#[derive(Debug)]
pub struct Keeper {
    server: String,
    file: StateFile,
    saved: Option<Saved>,
    /// True if the automover of the present process of the server is known to have been off.
    was_off: bool,
}

/// What [`Keeper::take_over`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOver {
    /// The automover had this mode and is off now.
    SwitchedOff(u64),
    /// The automover was off, and this is the mode to restore.
    WasOff(u64),
    /// The mode is not the one that this process had set: somebody has switched the automover on.
    SwitchedOn(u64),
}

/// What [`Keeper::give_back`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBack {
    /// The automover has this mode again.
    Restored(u64),
    /// There was nothing to restore.
    Nothing,
    /// Somebody has set this mode, which was not changed.
    ChangedByOthers(u64),
    /// The server has restarted, so its mode is that of its options.
    Restarted,
}

impl Keeper {
    /// Reads the state file. Refuses that of another server, or of another spelling of its address, if it has a mode that was
    /// not restored.
    pub fn new(server: String, file: StateFile) -> Result<Keeper, SteerError> {
        let saved = file.read()?;
        if let Some(other) = saved.as_ref().filter(|saved| saved.server != server)
            && other.has_changed_mode()
        {
            let (path, server) = (file.path().to_owned(), other.server.clone());
            return Err(SteerError::OtherServer { path, server });
        }
        let saved = saved.filter(|saved| saved.server == server);
        Ok(Keeper { server, file, saved, was_off: false })
    }

    /// Returns the path of the state file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the last split in the state file; empty if there is none.
    pub fn split(&self) -> Split {
        self.saved.as_ref().map(|saved| saved.split.clone()).unwrap_or_default()
    }

    /// Returns true if the state file is of an earlier process of the server.
    pub fn has_restarted(&self, process: ProcessIdentity) -> bool {
        self.saved.as_ref().is_some_and(|saved| !saved.process().is_same_process(process))
    }

    /// Switches the automover off, unless it was off and somebody has switched it on.
    pub fn take_over<S: Read + Write>(
        &mut self,
        connection: &mut Connection<S>,
        settings: &Settings,
        process: ProcessIdentity,
    ) -> Result<TakeOver, SteerError> {
        let same = self.saved.as_ref().filter(|it| it.process().is_same_process(process));
        let former = same.and_then(|saved| saved.automove);
        match (former, settings.automove) {
            (Some(former), OFF) => {
                self.was_off = true;
                return Ok(TakeOver::WasOff(former));
            }
            (Some(_), mode) if self.was_off => return Ok(TakeOver::SwitchedOn(mode)),
            _ => self.was_off = false,
        }
        let mut saved = Saved::new(self.server.clone(), process);
        saved.automove = Some(settings.automove);
        saved.split = self.split();
        self.file.write(&saved)?;
        self.saved = Some(saved);
        let found = match settings.automove {
            OFF => TakeOver::WasOff(OFF),
            mode => {
                set_automove(connection, OFF)?;
                TakeOver::SwitchedOff(mode)
            }
        };
        self.was_off = true;
        Ok(found)
    }

    /// Saves the split.
    pub fn save_split(&mut self, split: &Split) -> Result<(), SteerError> {
        let Some(saved) = self.saved.as_mut().filter(|saved| saved.split != *split) else {
            return Ok(());
        };
        saved.split = split.clone();
        self.file.write(saved)
    }

    /// Returns true if a mode is to be restored.
    pub fn has_changed_mode(&self) -> bool {
        self.saved.as_ref().is_some_and(Saved::has_changed_mode)
    }

    /// Restores the former mode of the automover.
    pub fn give_back<S: Read + Write>(
        &mut self,
        connection: &mut Connection<S>,
        settings: &Settings,
        process: ProcessIdentity,
    ) -> Result<GiveBack, SteerError> {
        let Some(saved) = &self.saved else { return Ok(GiveBack::Nothing) };
        let done = match saved.automove {
            None | Some(OFF) => GiveBack::Nothing,
            Some(_) if !saved.process().is_same_process(process) => GiveBack::Restarted,
            // The command to switch it off has not arrived.
            Some(former) if settings.automove == former => GiveBack::Nothing,
            Some(_) if settings.automove != OFF => GiveBack::ChangedByOthers(settings.automove),
            Some(former) => {
                set_automove(connection, former)?;
                GiveBack::Restored(former)
            }
        };
        self.forget_mode()?;
        Ok(done)
    }

    /// Records that the mode is no consequence of ours any more. The split remains.
    pub fn forget_mode(&mut self) -> Result<(), SteerError> {
        let Some(saved) = self.saved.as_mut().filter(|saved| saved.automove.is_some()) else {
            return Ok(());
        };
        saved.automove = None;
        self.file.write(saved)
    }
}

#[cfg(test)]
mod tests {
    use super::{Keeper, Saved, StateFile};
    use slabwise_observer::counters::ProcessIdentity;

    #[test]
    fn a_mode_of_another_server_is_not_lost() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let path = folder.path().join("state.json");
        let file = || StateFile::lock(&path).expect("the folder exists");
        let process = ProcessIdentity { pid: 3, started_at_seconds: 5 };
        let mut saved = Saved::new("localhost:11211".to_owned(), process);
        for (mode, is_refused) in [(Some(1), true), (Some(0), false), (None, false)] {
            saved.automove = mode;
            file().write(&saved).expect("the folder exists");
            let same = Keeper::new("localhost:11211".to_owned(), file());
            assert_eq!(same.expect("the file is valid").has_changed_mode(), mode == Some(1));
            match Keeper::new("127.0.0.1:11211".to_owned(), file()) {
                Ok(keeper) => assert!(!is_refused && keeper.split().is_empty(), "{mode:?}"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(is_refused && text.contains("--server localhost:11211"), "{text}");
                }
            }
        }
    }
}
