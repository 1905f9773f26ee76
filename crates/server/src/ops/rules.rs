//! Where memcached's dialects differ in more than their bytes.

use crate::shared::DeleteCommand;
use slabwise_engine::StoreMode;

/// Whose rules an operation follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Those of the classic text protocol and of the binary one.
    Classic,
    /// Those of the meta protocol.
    Meta,
}

impl Rules {
    /// Whether an operation counts by key prefix.
    #[inline]
    pub(super) fn counts_prefixes(self) -> bool {
        self == Rules::Classic
    }

    /// The name of a delete on a watcher's line.
    pub(super) fn delete_command(self) -> DeleteCommand {
        match self {
            Rules::Classic => DeleteCommand::Delete,
            Rules::Meta => DeleteCommand::MetaDelete,
        }
    }

    /// Whether a store that failed removes the item that was to be replaced: the client counts on its end.
    pub(super) fn discards(self, mode: StoreMode) -> bool {
        match self {
            Rules::Classic => mode == StoreMode::Set,
            Rules::Meta => matches!(mode, StoreMode::Set | StoreMode::Replace | StoreMode::Cas(_)),
        }
    }
}
