//! From what was said to what follows from it: defaults, presets, and what cannot go together.

use super::OptionsError;
use super::engine::{engine_config, growth_factor};
use super::listen::{Defaults, parse_list};
use super::policy;
use super::raw::Raw;
use super::tls;
use crate::settings::{Listen, ListenAddress, ProcessSettings, Protocol, Reported, Settings};
use slabwise_engine::{EngineConfig, EvictionKind};
use slabwise_protocol::text::CostWire;
use slabwise_tuner::AutomoveSettings;
use slabwise_tuner::MoveBudget;
use std::path::{Path, PathBuf};

/// Names the file of passwords for `-S`; memcached's name.
const SASL_PASSWORD_FILE_VARIABLE: &str = "MEMCACHED_SASL_PWDB";
const PORT_DEFAULT: i32 = 11_211;
const UNIX_MODE_DEFAULT: u32 = 0o700;
const THREADS_DEFAULT: u32 = 4;
/// From here on more threads are rather a mistake than a wish.
const THREADS_USUAL_MAX: u32 = 64;

/// The settings that follow, and what to tell the user.
pub(super) fn validate(mut raw: Raw) -> Result<(Settings, Vec<String>), OptionsError> {
    let engine = engine_config(&raw)?;
    if raw.sasl_enabled {
        check_sasl(&raw)?;
    }
    if raw.auth_file.is_some() {
        check_auth(&mut raw)?;
    }
    if raw.port.is_none() && raw.udp_port != 0 {
        raw.port = Some(raw.udp_port);
    }
    let listen = listen(&mut raw)?;
    let tls = tls::settings(&mut raw, |path| absolute(path))?;
    if let Some(tls) = &tls
        && let Some(warning) = tls::warning(&listen, tls.ca_file.as_deref())
    {
        raw.warn(warning);
    }
    let udp = udp(&mut raw)?;
    let threads = raw.threads.unwrap_or(THREADS_DEFAULT);
    if threads > THREADS_USUAL_MAX {
        raw.warn(format!(
            "-t {threads} is more than any machine needs: one worker a core is enough"
        ));
    }
    check_napi_ids(&raw, threads)?;
    warn_of_no_effect(&mut raw, engine.eviction);
    raw.huge_pages.then(check_huge_pages).transpose()?;
    let page_policy = policy::page_policy(&raw)?;
    let profiling = policy::profiling(&mut raw, &page_policy, engine.memory_limit_bytes)?;
    let settings = Settings {
        listen,
        tls,
        udp,
        listen_backlog: raw.listen_backlog.unwrap_or(1024),
        connections_max: raw.connections_max.unwrap_or(1024),
        maxconns_fast: raw.connections_max_fast.unwrap_or(true),
        threads: threads as usize,
        auth_file: raw.auth_file.as_deref().map(absolute).transpose()?,
        requests_per_turn_max: raw.requests_per_turn_max.unwrap_or(20),
        idle_timeout_seconds: (raw.idle_timeout_seconds > 0).then_some(raw.idle_timeout_seconds),
        verbosity: raw.verbosity,
        shutdown_enabled: raw.shutdown_command,
        flush_enabled: !raw.flush_disabled,
        dump_enabled: !raw.dump_disabled,
        debug_commands: raw.debug_commands,
        watch_enabled: !raw.watch_disabled,
        cas_enabled: !raw.cas_disabled,
        costs_measured: raw.costs_measured,
        cost_wire: if raw.cost_wire { CostWire::On } else { CostWire::Off },
        protocol: protocol(&raw)?,
        sasl_enabled: raw.sasl_enabled,
        sasl_password_file: sasl_password_file(&mut raw)?,
        prefix_delimiter: raw.prefix_delimiter.unwrap_or(':'),
        detail_enabled: raw.prefix_delimiter.is_some(),
        track_sizes: raw.track_sizes,
        lru_maintainer: raw.lru_maintainer.unwrap_or(true),
        crawler_enabled: raw.lru_crawler.unwrap_or(true),
        reassign_enabled: raw.slab_reassign.unwrap_or(true),
        learn_classes: learn_classes(&raw)?,
        profiling,
        reported: reported(&raw, &engine, policy::automove(&raw, &page_policy)),
        page_policy,
        move_budget: move_budget(&raw, engine.page_size_bytes),
        memory_file: raw.memory_file.as_deref().map(absolute).transpose()?,
        process: process(&raw)?,
        engine,
    };
    Ok((settings, raw.warnings))
}

/// What goes together, but does less than it seems to.
fn warn_of_no_effect(raw: &mut Raw, eviction: EvictionKind) {
    if raw.cas_disabled {
        raw.warn("-C saves nothing here: CAS values cost no extra memory");
    }
    if raw.costs_measured && !eviction.uses_costs() {
        let name = eviction.name();
        raw.warn(format!(
            "-o cost=measured changes nothing of what leaves first under eviction={name}"
        ));
    }
}

/// Whoever gives chunk sizes, or how they grow, means to have them; and a table can only change where pages move.
fn learn_classes(raw: &Raw) -> Result<bool, OptionsError> {
    let moves_pages = raw.slab_reassign.unwrap_or(true);
    match raw.classes {
        // A full cache that evicts nothing has no room for what a change moves.
        Some("learned") if raw.eviction_disabled => Err(OptionsError(
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
            let is_given = raw.slab_sizes.is_some()
                || raw.growth_factor.is_some()
                || raw.chunk_size_bytes.is_some();
            let can_change = moves_pages && !raw.eviction_disabled;
            Ok(can_change && !raw.memcached_preset && !is_given)
        }
    }
}

fn check_napi_ids(raw: &Raw, threads: u32) -> Result<(), OptionsError> {
    match raw.napi_ids {
        ids if ids > threads => {
            Err(OptionsError(format!("-N {ids} is above -t {threads}: raise -t or lower -N")))
        }
        _ => Ok(()),
    }
}

/// SASL is part of the binary protocol: in the other nobody could say who they are.
fn protocol(raw: &Raw) -> Result<Protocol, OptionsError> {
    match raw.protocol {
        None | Some(Protocol::Binary) if raw.sasl_enabled => Ok(Protocol::Binary),
        Some(protocol) if raw.sasl_enabled => Err(OptionsError(format!(
            "-S lets nobody in but by the binary protocol, and -B says {}: say -B binary or leave it out",
            protocol.name()
        ))),
        None => Ok(Protocol::Auto),
        Some(protocol) => Ok(protocol),
    }
}

/// The file of who may authenticate. Without one nobody can, which is safe, and what memcached does.
fn sasl_password_file(raw: &mut Raw) -> Result<Option<PathBuf>, OptionsError> {
    if !raw.sasl_enabled {
        return Ok(None);
    }
    let path = std::env::var_os(SASL_PASSWORD_FILE_VARIABLE);
    if path.is_none() {
        raw.warn(format!(
            "-S: {SASL_PASSWORD_FILE_VARIABLE} names no file, so nobody can authenticate: set it to a \
             file with a line user:password for each client"
        ));
    }
    path.map(absolute).transpose()
}

fn listen(raw: &mut Raw) -> Result<Listen, OptionsError> {
    if let Some(path) = &raw.unix_path {
        let mode = raw.unix_mode.unwrap_or(UNIX_MODE_DEFAULT);
        return Ok(Listen::Unix { path: absolute(path)?, mode });
    }
    let port = match raw.port.unwrap_or(PORT_DEFAULT) {
        0 if raw.tls.enabled => {
            return Err(OptionsError(
                "-Z secures TCP, and -p 0 turns it off: give -p another port, or leave -Z out"
                    .to_owned(),
            ));
        }
        0 => {
            if raw.udp_port == 0 {
                raw.warn(
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
    let mut addresses = addresses(raw, port, &mut |warning| warnings.push(warning))?;
    raw.warnings.extend(warnings);
    if raw.auth_file.is_some() {
        check_protocols(&mut addresses)?;
    }
    if raw.sasl_enabled {
        check_sasl_protocols(&addresses)?;
    }
    Ok(Listen::Tcp(addresses))
}

/// Where `-l` says, or everywhere; `port` where it names none.
fn addresses(
    raw: &Raw,
    port: u16,
    warn: &mut dyn FnMut(String),
) -> Result<Vec<ListenAddress>, OptionsError> {
    let (security, protocol) = (tls::default_security(&raw.tls), protocol(raw)?);
    if raw.interfaces.is_empty() {
        return Ok(vec![ListenAddress { host: None, port, security, protocol }]);
    }
    parse_list(&raw.interfaces, Defaults { port, security, protocol }, warn)
}

/// What would let clients in without a password cannot be asked for together with one.
fn check_auth(raw: &mut Raw) -> Result<(), OptionsError> {
    if raw.udp_port != 0 {
        let port = raw.udp_port;
        return Err(OptionsError(format!(
            "-U {port} cannot go with -Y: nobody can log in by UDP; say -U 0"
        )));
    }
    match raw.protocol {
        None => raw.protocol = Some(Protocol::Ascii),
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

/// The same for the protocols that `-l` names; as in memcached, a listener of both speaks text then.
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
fn check_sasl(raw: &Raw) -> Result<(), OptionsError> {
    if raw.auth_file.is_some() {
        return Err(OptionsError(
            "-S cannot go with -Y, as one asks for the binary protocol and the other for text: leave \
             one of them out"
                .to_owned(),
        ));
    }
    if raw.udp_port != 0 {
        let port = raw.udp_port;
        return Err(OptionsError(format!(
            "-U {port} cannot go with -S: nobody can authenticate by UDP; say -U 0"
        )));
    }
    Ok(())
}

/// The same for the protocols that `-l` names.
fn check_sasl_protocols(addresses: &[ListenAddress]) -> Result<(), OptionsError> {
    match addresses.iter().find(|address| address.protocol != Protocol::Binary) {
        Some(address) => Err(OptionsError(format!(
            "-l {address}: only proto[binary] can go with -S, as text knows no SASL"
        ))),
        None => Ok(()),
    }
}

/// The places of `-l` for UDP, too; as in memcached, a port that an element of `-l` names is meant for both.
fn udp(raw: &mut Raw) -> Result<Vec<ListenAddress>, OptionsError> {
    let port = match raw.udp_port {
        0 => return Ok(Vec::new()),
        -1 => 0,
        port => port as u16,
    };
    if raw.unix_path.is_some() {
        raw.warn(format!("-U {} has no effect with -s, which serves no network", raw.udp_port));
        return Ok(Vec::new());
    }
    if raw.tls.enabled {
        raw.warn(format!("-U {}: UDP is in clear text and open to all, -Z or not", raw.udp_port));
    }
    // What there is to say of the places was said for TCP.
    addresses(raw, port, &mut |_| ())
}

fn move_budget(raw: &Raw, page_size_bytes: usize) -> MoveBudget {
    let default = MoveBudget::for_pages_of(page_size_bytes);
    MoveBudget {
        chunks_per_step: raw.page_move_chunks.map_or(default.chunks_per_step, |n| n as usize),
        pages_per_second: raw.page_move_rate.unwrap_or(default.pages_per_second),
    }
}

fn process(raw: &Raw) -> Result<ProcessSettings, OptionsError> {
    Ok(ProcessSettings {
        daemonize: raw.daemonize,
        pid_file: raw.pid_file.as_deref().map(absolute).transpose()?,
        user: raw.user.clone(),
        lock_memory: raw.lock_memory,
        core_files: raw.core_files,
    })
}

fn reported(raw: &Raw, engine: &EngineConfig, automove: AutomoveSettings) -> Reported {
    let largest = engine.classes.chunk_size_bytes(engine.classes.largest());
    Reported {
        udp_port: raw.udp_port,
        auth_file: raw.auth_file.clone(),
        tcp_port: raw.port.unwrap_or(PORT_DEFAULT),
        interfaces: (!raw.interfaces.is_empty()).then(|| raw.interfaces.join(",")),
        growth_factor: growth_factor(raw),
        chunk_size_bytes: raw.chunk_size_bytes.unwrap_or(48),
        hash_power: raw.hash_power,
        hash_algorithm: raw.hash_algorithm.unwrap_or("xxh3"),
        slab_automove: automove.level,
        slab_automove_ratio: automove.age_ratio,
        slab_automove_window: automove.window_seconds,
        lru_crawler_sleep_us: raw.lru_crawler_sleep_us.unwrap_or(100),
        lru_crawler_tocrawl: raw.lru_crawler_tocrawl,
        slab_chunk_max_bytes: largest as u64,
        tail_repair_seconds: raw.tail_repair_seconds,
        watcher_log_bytes: u64::from(raw.watcher_log_kib.unwrap_or(256)) << 10,
        worker_log_bytes: u64::from(raw.worker_log_kib.unwrap_or(64)) << 10,
        read_buffers_bytes_max: u64::from(raw.read_buffers_mib_max) << 20,
        napi_ids: raw.napi_ids,
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
