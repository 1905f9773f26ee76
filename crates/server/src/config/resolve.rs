//! From what was given to what follows from it: defaults, presets, and what cannot go together.

use super::draft::{Draft, Given};
use super::engine::{engine_config, growth_factor};
use super::error::OptionsError;
use super::listen::{Defaults, parse_list};
use super::policy;
use super::settings::{Listen, ListenAddress, Protocol, Settings};
use super::tls;
use slabwise_tuner::MoveBudget;
use std::path::{Path, PathBuf};

/// Names the file of passwords for `-S`; memcached's name.
const SASL_PASSWORD_FILE_VARIABLE: &str = "MEMCACHED_SASL_PWDB";
const PORT_DEFAULT: i32 = 11_211;
const UNIX_MODE_DEFAULT: u32 = 0o700;
/// More threads than this are rather a mistake than a wish.
const THREADS_USUAL_MAX: usize = 64;

/// The settings that follow, and the warnings.
pub(super) fn resolve(mut draft: Draft) -> Result<(Settings, Vec<String>), OptionsError> {
    draft.settings.engine = engine_config(&draft)?;
    check_protection(&mut draft)?;
    resolve_network(&mut draft)?;
    warn_of_no_effect(&mut draft);
    if draft.settings.engine.huge_pages {
        check_huge_pages()?;
    }
    resolve_page_policy(&mut draft)?;
    draft.settings.protocol = protocol(&draft)?;
    draft.settings.sasl_password_file = sasl_password_file(&mut draft)?;
    draft.settings.learn_classes = learn_classes(&draft)?;
    let Draft { mut settings, given, warnings } = draft;
    settings.growth_factor = growth_factor(&given);
    settings.chunk_size_bytes = given.chunk_size_bytes.unwrap_or(settings.chunk_size_bytes);
    settings.move_budget = move_budget(&given, settings.engine.page_size_bytes);
    settings.auth_file = settings.auth_file_as_given.as_ref().map(absolute).transpose()?;
    for path in [&mut settings.memory_file, &mut settings.process.pid_file] {
        *path = path.as_ref().map(absolute).transpose()?;
    }
    Ok((settings, warnings))
}

/// With passwords nothing may be served that knows none.
fn check_protection(draft: &mut Draft) -> Result<(), OptionsError> {
    if draft.settings.sasl_enabled {
        check_sasl(&draft.settings)?;
    }
    if draft.settings.auth_file_as_given.is_some() {
        check_auth(draft)?;
    }
    Ok(())
}

fn resolve_network(draft: &mut Draft) -> Result<(), OptionsError> {
    if draft.given.port.is_none() && draft.settings.udp_port != 0 {
        draft.given.port = Some(draft.settings.udp_port);
    }
    draft.settings.tcp_port = draft.given.port.unwrap_or(PORT_DEFAULT);
    draft.settings.listen = listen(draft)?;
    draft.settings.tls = tls::settings(draft, |path| absolute(path))?;
    let Settings { tls, listen, .. } = &draft.settings;
    let warning = tls.as_ref().and_then(|tls| tls::warning(listen, tls.ca_file.as_deref()));
    draft.warnings.extend(warning);
    draft.settings.udp = udp(draft)?;
    let (threads, napi_ids) = (draft.settings.threads, draft.settings.napi_ids);
    if threads > THREADS_USUAL_MAX {
        draft.warn(format!(
            "-t {threads} is more than any machine needs: one worker a core is enough"
        ));
    }
    if napi_ids as usize > threads {
        return Err(OptionsError(format!(
            "-N {napi_ids} is above -t {threads}: raise -t or lower -N"
        )));
    }
    Ok(())
}

fn resolve_page_policy(draft: &mut Draft) -> Result<(), OptionsError> {
    let page_policy = policy::page_policy(&draft.given)?;
    let memory_limit_bytes = draft.settings.engine.memory_limit_bytes;
    draft.settings.profiling = policy::profiling(draft, &page_policy, memory_limit_bytes)?;
    let level = draft.settings.automove.level;
    draft.settings.automove = policy::automove(&draft.given, &page_policy, level);
    draft.settings.page_policy = page_policy;
    Ok(())
}

fn warn_of_no_effect(draft: &mut Draft) {
    if !draft.settings.cas_enabled {
        draft.warn("-C saves nothing here: CAS values cost no extra memory");
    }
    let eviction = draft.settings.engine.eviction;
    if draft.settings.costs_measured && !eviction.uses_costs() {
        let name = eviction.name();
        draft.warn(format!(
            "-o cost=measured changes nothing of what leaves first under eviction={name}"
        ));
    }
}

/// Chunk sizes that are given, or how they grow, stay in force; and a table can only change where pages move.
fn learn_classes(draft: &Draft) -> Result<bool, OptionsError> {
    let Draft { settings, given, .. } = draft;
    let moves_pages = settings.reassign_enabled;
    let evicts = settings.engine.eviction_enabled;
    match given.classes {
        // A full cache that evicts nothing has no room for what a change moves.
        Some("learned") if !evicts => Err(OptionsError(
            "-o classes=learned needs evictions: leave out -M, or give classes=geometric"
                .to_owned(),
        )),
        Some("learned") if !moves_pages => Err(OptionsError(
            "-o classes=learned needs page moves: leave out no_slab_reassign, or give \
             classes=geometric"
                .to_owned(),
        )),
        Some(name) => Ok(name == "learned"),
        None => {
            let is_given = given.slab_sizes.is_some()
                || given.growth_factor.is_some()
                || given.chunk_size_bytes.is_some();
            Ok(moves_pages && evicts && !given.memcached_preset && !is_given)
        }
    }
}

/// SASL is part of the binary protocol: in the other nobody could say who they are.
fn protocol(draft: &Draft) -> Result<Protocol, OptionsError> {
    let sasl_enabled = draft.settings.sasl_enabled;
    match draft.given.protocol {
        None | Some(Protocol::Binary) if sasl_enabled => Ok(Protocol::Binary),
        Some(protocol) if sasl_enabled => Err(OptionsError(format!(
            "-S lets nobody in but by the binary protocol, and -B says {}: say -B binary or leave it out",
            protocol.name()
        ))),
        None => Ok(Protocol::Auto),
        Some(protocol) => Ok(protocol),
    }
}

/// The password file of `-S`. Without one nobody can authenticate, which is safe, and what memcached does.
fn sasl_password_file(draft: &mut Draft) -> Result<Option<PathBuf>, OptionsError> {
    if !draft.settings.sasl_enabled {
        return Ok(None);
    }
    let path = std::env::var_os(SASL_PASSWORD_FILE_VARIABLE);
    if path.is_none() {
        draft.warn(format!(
            "-S: {SASL_PASSWORD_FILE_VARIABLE} names no file, so nobody can authenticate: set it to a \
             file with a line user:password for each client"
        ));
    }
    path.map(absolute).transpose()
}

fn listen(draft: &mut Draft) -> Result<Listen, OptionsError> {
    if let Some(path) = &draft.given.unix_path {
        let mode = draft.given.unix_mode.unwrap_or(UNIX_MODE_DEFAULT);
        return Ok(Listen::Unix { path: absolute(path)?, mode });
    }
    let port = match draft.settings.tcp_port {
        0 if draft.given.tls_enabled => {
            return Err(OptionsError(
                "-Z secures TCP, and -p 0 turns it off: give -p another port, or leave -Z out"
                    .to_owned(),
            ));
        }
        0 => {
            if draft.settings.udp_port == 0 {
                draft.warn(
                    "-p 0 turns TCP off, and there is no -s to listen on, so nobody can connect: say \
                     -p -1 for any free port, or give -s FILE or -U PORT",
                );
            }
            return Ok(Listen::Tcp(Vec::new()));
        }
        // The kernel chooses.
        -1 => 0,
        port => port as u16,
    };
    let mut warnings = Vec::new();
    let mut addresses = addresses(draft, port, &mut |warning| warnings.push(warning))?;
    draft.warnings.extend(warnings);
    if draft.settings.auth_file_as_given.is_some() {
        check_protocols(&mut addresses)?;
    }
    if draft.settings.sasl_enabled {
        check_sasl_protocols(&addresses)?;
    }
    Ok(Listen::Tcp(addresses))
}

/// Where `-l` says, or everywhere; `port` where it names none.
fn addresses(
    draft: &Draft,
    port: u16,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<ListenAddress>, OptionsError> {
    let (security, protocol) = (tls::default_security(&draft.given), protocol(draft)?);
    let interfaces = &draft.settings.interfaces;
    if interfaces.is_empty() {
        return Ok(vec![ListenAddress { host: None, port, security, protocol }]);
    }
    parse_list(interfaces, Defaults { port, security, protocol }, warn)
}

/// What would let clients in without a password cannot be asked for together with one.
fn check_auth(draft: &mut Draft) -> Result<(), OptionsError> {
    let port = draft.settings.udp_port;
    if port != 0 {
        return Err(OptionsError(format!(
            "-U {port} cannot go with -Y: nobody can log in by UDP; say -U 0"
        )));
    }
    match draft.given.protocol {
        None => draft.given.protocol = Some(Protocol::Ascii),
        Some(Protocol::Ascii) => {}
        Some(protocol) => {
            let protocol = protocol.name();
            return Err(OptionsError(format!(
                "-B {protocol} cannot go with -Y, whose logins are text: say -B ascii or leave it out"
            )));
        }
    }
    Ok(())
}

/// Refuses protocols of `-l` that know no text login; as in memcached, a listener of both speaks text then.
fn check_protocols(addresses: &mut [ListenAddress]) -> Result<(), OptionsError> {
    for address in addresses {
        match address.protocol {
            Protocol::Ascii => {}
            Protocol::Auto => address.protocol = Protocol::Ascii,
            Protocol::Binary => {
                return Err(OptionsError(format!(
                    "-l {address}: proto[binary] cannot go with -Y, whose logins are text: say \
                     proto[ascii]"
                )));
            }
        }
    }
    Ok(())
}

/// With `-S` no way in may be open that knows no SASL, wherever the server listens.
fn check_sasl(settings: &Settings) -> Result<(), OptionsError> {
    if settings.auth_file_as_given.is_some() {
        return Err(OptionsError(
            "-S cannot go with -Y, as one asks for the binary protocol and the other for text: leave \
             one of them out"
                .to_owned(),
        ));
    }
    let port = settings.udp_port;
    if port != 0 {
        return Err(OptionsError(format!(
            "-U {port} cannot go with -S: nobody can authenticate by UDP; say -U 0"
        )));
    }
    Ok(())
}

/// Refuses protocols of `-l` that know no SASL.
fn check_sasl_protocols(addresses: &[ListenAddress]) -> Result<(), OptionsError> {
    match addresses.iter().find(|address| address.protocol != Protocol::Binary) {
        Some(address) => Err(OptionsError(format!(
            "-l {address}: only proto[binary] can go with -S, as text knows no SASL"
        ))),
        None => Ok(()),
    }
}

/// The places of `-l` for UDP, too; as in memcached, a port that an element of `-l` names is meant for both.
fn udp(draft: &mut Draft) -> Result<Vec<ListenAddress>, OptionsError> {
    let given = draft.settings.udp_port;
    let port = match given {
        0 => return Ok(Vec::new()),
        -1 => 0,
        port => port as u16,
    };
    if draft.given.unix_path.is_some() {
        draft.warn(format!("-U {given} has no effect with -s, which serves no network"));
        return Ok(Vec::new());
    }
    if draft.given.tls_enabled {
        draft.warn(format!("-U {given}: UDP is in clear text and open to all, -Z or not"));
    }
    // What there is to say of the places was said for TCP.
    addresses(draft, port, &mut |_| ())
}

fn move_budget(given: &Given, page_size_bytes: usize) -> MoveBudget {
    let default = MoveBudget::for_pages_of(page_size_bytes);
    MoveBudget {
        chunks_per_step: given.page_move_chunks.map_or(default.chunks_per_step, |n| n as usize),
        pages_per_second: given.page_move_rate.unwrap_or(default.pages_per_second),
    }
}

/// A daemon leaves its directory; the paths it was given stay where they are.
fn absolute(path: impl AsRef<Path>) -> Result<PathBuf, OptionsError> {
    let path = path.as_ref();
    std::path::absolute(path).map_err(|error| {
        OptionsError(format!("{}: cannot find the directory it is in: {error}", path.display()))
    })
}

/// memcached, too, refuses to start where huge pages were asked for and cannot be had.
fn check_huge_pages() -> Result<(), OptionsError> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    match std::fs::read_to_string(path) {
        Ok(modes) if !modes.contains("[never]") => Ok(()),
        _ => Err(OptionsError(format!(
            "-L: this system gives no transparent huge pages: enable them in {path} or leave -L out"
        ))),
    }
}
