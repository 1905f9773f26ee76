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
use crate::saved::{Saved, StateFile};
use crate::split::Split;
use slabwise_client::Connection;
use slabwise_observer::counters::ProcessIdentity;
use slabwise_observer::settings::Settings;
use std::io::{Read, Write};

/// The mode of the automover when it is off.
pub const OFF: u64 = 0;

/// The keeper of the automover's mode of one server.
#[derive(Debug)]
pub struct Keeper {
    server: String,
    file: StateFile,
    saved: Option<Saved>,
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
    /// Reads the state file.
    pub fn new(server: String, file: StateFile) -> Result<Keeper, SteerError> {
        let saved = file.read()?.filter(|saved| saved.server == server);
        Ok(Keeper { server, file, saved })
    }

    /// Returns the last split in the state file; empty if there is none.
    pub fn split(&self) -> Split {
        self.saved.as_ref().map(|saved| saved.split.clone()).unwrap_or_default()
    }

    /// Returns true if the state file is of an earlier process of the server.
    pub fn has_restarted(&self, process: ProcessIdentity) -> bool {
        self.saved.as_ref().is_some_and(|saved| !saved.process().is_same_process(process))
    }

    /// Switches the automover off. `has_steered` is true if this process had already switched it off.
    pub fn take_over<S: Read + Write>(
        &mut self,
        connection: &mut Connection<S>,
        settings: &Settings,
        process: ProcessIdentity,
        has_steered: bool,
    ) -> Result<TakeOver, SteerError> {
        let same = self.saved.as_ref().filter(|it| it.process().is_same_process(process));
        let former = same.and_then(|saved| saved.automove);
        match (former, settings.automove) {
            (Some(former), OFF) => return Ok(TakeOver::WasOff(former)),
            (Some(_), mode) if has_steered => return Ok(TakeOver::SwitchedOn(mode)),
            _ => {}
        }
        let mut saved = Saved::new(self.server.clone(), process);
        saved.automove = Some(settings.automove);
        saved.split = self.split();
        self.file.write(&saved)?;
        self.saved = Some(saved);
        if settings.automove == OFF {
            return Ok(TakeOver::WasOff(OFF));
        }
        set_automove(connection, OFF)?;
        Ok(TakeOver::SwitchedOff(settings.automove))
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
        self.saved.as_ref().is_some_and(|saved| saved.automove.is_some_and(|mode| mode != OFF))
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
