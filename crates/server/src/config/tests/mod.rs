//! Tests of the options. Each of the two modules tests a part: how a command line is parsed, described and rejected,
//! and the settings that result from it.

mod command_line;
mod resolved_settings;

use super::{IoKind, Request, Running, Settings, THREADS_DEFAULT_MAX, Tunables, parse, report};

/// Parses a command line.
fn request(args: &[&str]) -> Result<Request, String> {
    parse(args.iter().map(Into::into), THREADS_DEFAULT_MAX).map_err(|error| error.to_string())
}

/// Returns the settings and the warnings of a valid command line.
fn serve(args: &[&str]) -> (Settings, Vec<String>) {
    match request(args) {
        Ok(Request::Serve { settings, warnings }) => (*settings, warnings),
        other => panic!("{args:?} must start the server, but the result is {other:?}"),
    }
}

/// Returns the settings of a valid command line.
fn settings(args: &[&str]) -> Settings {
    serve(args).0
}

/// Returns the error of an invalid command line.
fn refusal(args: &[&str]) -> String {
    let reason = request(args).expect_err("the command line must be rejected");
    assert_eq!(reason.lines().count(), 1, "an error must have one line: {reason}");
    reason
}

/// Returns the lines of `stats settings` before a command has changed a setting.
fn stats_at_start(settings: &Settings) -> Vec<(&'static str, String)> {
    report(&Running {
        settings,
        tunables: Tunables::new(settings, &settings.engine),
        lru: settings.engine.eviction_options.lru,
        memory_limit_bytes: settings.engine.memory_limit_bytes,
        detail_enabled: settings.detail_enabled,
        io: IoKind::Epoll,
    })
}
