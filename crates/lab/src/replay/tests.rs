//! Replays against real servers.
