//! From what was given to what follows from it: defaults, presets, and what cannot go together.

use super::engine::{engine_config, growth_factor};
use super::listen::parse_list;
use super::policy;
use super::settings::{Draft, Given, Listen, ListenAddress, ListenSecurity, Protocol, Settings};
use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_tuner::MoveBudget;
use std::path::{Path, PathBuf};

/// Names the file of passwords for `-S`; memcached's name.
const SASL_PASSWORD_FILE_VARIABLE: &str = "MEMCACHED_SASL_PWDB";
const PORT_DEFAULT: i32 = 11_211;
const UNIX_MODE_DEFAULT: u32 = 0o700;
/// More threads than this are rather a mistake than a wish.
const THREADS_USUAL_MAX: usize = 64;

/// The settings that follow, and the warnings.
pub(super) fn resolve(mut draft: Draft) -> Result<(Settings, Vec<String>), String> {
    draft.settings.engine = engine_config(&draft)?;
    draft.settings.protocol = protocol(&draft)?;
    resolve_network(&mut draft)?;
    warn_of_no_effect(&mut draft);
    if draft.settings.engine.huge_pages {
        check_huge_pages()?;
    }
    policy::resolve(&mut draft)?;
    draft.settings.sasl_password_file = sasl_password_file(&mut draft)?;
    draft.settings.tunables.learn_classes = learn_classes(&draft)?;
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

impl Default for Settings {
    /// What a command line without options gives.
    fn default() -> Settings {
        resolve(Draft::default()).expect("the defaults go together").0
    }
}

/// With passwords nothing may be served that knows none: `-S` is part of the binary protocol, `-Y` of text.
fn protocol(draft: &Draft) -> Result<Protocol, String> {
    let Draft { settings, given, .. } = draft;
    let (option, log_in, needed) =
        match (settings.sasl_enabled, settings.auth_file_as_given.is_some()) {
            (false, false) => return Ok(given.protocol.unwrap_or(Protocol::Auto)),
            (true, false) => ("-S", "authenticate", Protocol::Binary),
            (false, true) => ("-Y", "log in", Protocol::Ascii),
            (true, true) => {
                return Err("-S cannot go with -Y, as one asks for the binary protocol and the \
                            other for text: leave one of them out"
                    .to_owned());
            }
        };
    let port = settings.udp_port;
    if port != 0 {
        return Err(format!(
            "-U {port} cannot go with {option}: nobody can {log_in} by UDP; say -U 0"
        ));
    }
    match given.protocol.filter(|&protocol| protocol != needed).map(Protocol::name) {
        None => Ok(needed),
        Some(name) if needed == Protocol::Binary => Err(format!(
            "-S lets nobody in but by the binary protocol, and -B says {name}: say -B binary or \
             leave it out"
        )),
        Some(name) => Err(format!(
            "-B {name} cannot go with -Y, whose logins are text: say -B ascii or leave it out"
        )),
    }
}

fn resolve_network(draft: &mut Draft) -> Result<(), String> {
    let udp_port = draft.settings.udp_port;
    let port = draft.given.port.or((udp_port != 0).then_some(udp_port));
    draft.settings.tcp_port = port.unwrap_or(PORT_DEFAULT);
    draft.settings.listen = listen(draft)?;
    draft.settings.tls = tls(draft)?;
    draft.warnings.extend(authority_warning(&draft.settings));
    draft.settings.udp = udp(draft)?;
    let (threads, napi_ids) = (draft.settings.threads, draft.settings.napi_ids);
    if threads > THREADS_USUAL_MAX {
        draft.warn(format!(
            "-t {threads} is more than any machine needs: one worker a core is enough"
        ));
    }
    if napi_ids as usize > threads {
        return Err(format!("-N {napi_ids} is above -t {threads}: raise -t or lower -N"));
    }
    Ok(())
}

fn warn_of_no_effect(draft: &mut Draft) {
    if !draft.settings.cas_enabled {
        draft.warn("-C saves nothing here: CAS values cost no extra memory");
    }
    let eviction = draft.settings.engine.eviction;
    if draft.settings.costs_measured && !eviction.info().uses_costs {
        let name = eviction.name();
        draft.warn(format!(
            "-o cost=measured changes nothing of what leaves first under eviction={name}"
        ));
    }
}

/// Chunk sizes that are given, or how they grow, stay in force; and a table can only change where pages move.
fn learn_classes(draft: &Draft) -> Result<bool, String> {
    let Draft { settings, given, .. } = draft;
    let moves_pages = settings.reassign_enabled;
    let evicts = settings.engine.eviction_enabled;
    match given.classes {
        // A full cache that evicts nothing has no room for what a change moves.
        Some("learned") if !evicts => {
            Err("-o classes=learned needs evictions: leave out -M, or give classes=geometric"
                .to_owned())
        }
        Some("learned") if !moves_pages => {
            Err("-o classes=learned needs page moves: leave out no_slab_reassign, or give \
             classes=geometric"
                .to_owned())
        }
        Some(name) => Ok(name == "learned"),
        None => {
            let is_given = given.slab_sizes.is_some()
                || given.growth_factor.is_some()
                || given.chunk_size_bytes.is_some();
            Ok(moves_pages && evicts && !given.memcached_preset && !is_given)
        }
    }
}

/// The password file of `-S`. Without one nobody can authenticate, which is safe, and what memcached does.
fn sasl_password_file(draft: &mut Draft) -> Result<Option<PathBuf>, String> {
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

fn listen(draft: &mut Draft) -> Result<Listen, String> {
    if let Some(path) = &draft.given.unix_path {
        let mode = draft.given.unix_mode.unwrap_or(UNIX_MODE_DEFAULT);
        return Ok(Listen::Unix { path: absolute(path)?, mode });
    }
    let port = match draft.settings.tcp_port {
        0 if draft.given.tls_enabled => {
            return Err(
                "-Z secures TCP, and -p 0 turns it off: give -p another port, or leave -Z out"
                    .to_owned(),
            );
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
        port => port,
    };
    let (mut addresses, warnings) = addresses(draft, port)?;
    draft.warnings.extend(warnings);
    require_passwords(&draft.settings, &mut addresses)?;
    Ok(Listen::Tcp(addresses))
}

/// Where `-l` says, or everywhere; `port` where it names none, and -1 is any that is free. And what has no effect.
fn addresses(draft: &Draft, port: i32) -> Result<(Vec<ListenAddress>, Vec<String>), String> {
    let Draft { settings, given, .. } = draft;
    let security = match given.tls_enabled {
        true => ListenSecurity::Tls(given.tls.verify_mode.client_certificates()),
        false => ListenSecurity::Plain,
    };
    // The kernel chooses a port for 0.
    let port = u16::try_from(port).unwrap_or(0);
    let everywhere = ListenAddress { host: None, port, security, protocol: settings.protocol };
    if settings.interfaces.is_empty() {
        return Ok((vec![everywhere], Vec::new()));
    }
    parse_list(&settings.interfaces, &everywhere)
}

/// Refuses what `-l` opens to clients that know no passwords, where there are any. As in memcached, with `-Y` a
/// listener of both protocols speaks text.
fn require_passwords(settings: &Settings, addresses: &mut [ListenAddress]) -> Result<(), String> {
    for address in addresses {
        match address.protocol {
            Protocol::Ascii | Protocol::Auto if settings.sasl_enabled => {
                return Err(format!(
                    "-l {address}: only proto[binary] can go with -S, as text knows no SASL"
                ));
            }
            Protocol::Binary if settings.auth_file_as_given.is_some() => {
                return Err(format!(
                    "-l {address}: proto[binary] cannot go with -Y, whose logins are text: say \
                     proto[ascii]"
                ));
            }
            Protocol::Auto if settings.auth_file_as_given.is_some() => {
                address.protocol = Protocol::Ascii;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The places of `-l` for UDP, too; as in memcached, a port that an element of `-l` names is meant for both.
fn udp(draft: &mut Draft) -> Result<Vec<ListenAddress>, String> {
    let port = draft.settings.udp_port;
    if port == 0 {
        return Ok(Vec::new());
    }
    if draft.given.unix_path.is_some() {
        draft.warn(format!("-U {port} has no effect with -s, which serves no network"));
        return Ok(Vec::new());
    }
    if draft.given.tls_enabled {
        draft.warn(format!("-U {port}: UDP is in clear text and open to all, -Z or not"));
    }
    // What there is to say of the places was said for TCP.
    addresses(draft, port).map(|(addresses, _)| addresses)
}

/// What `-Z` and the options of TLS come to.
fn tls(draft: &mut Draft) -> Result<Option<TlsSettings>, String> {
    let Given { tls, tls_enabled, tls_names, .. } = &draft.given;
    if !tls_enabled {
        if !tls_names.is_empty() {
            let names = tls_names.join(", ");
            draft.warn(format!("without -Z traffic is in clear text: {names} have no effect"));
        }
        return Ok(None);
    }
    if tls.chain_file.as_os_str().is_empty() {
        return Err(
            "-Z needs the server's certificate and key: add -o ssl_chain_cert=FILE,ssl_key=FILE"
                .to_owned(),
        );
    }
    Ok(Some(TlsSettings {
        chain_file: absolute(&tls.chain_file)?,
        key_file: tls.key_file.as_ref().map(absolute).transpose()?,
        ca_file: tls.ca_file.as_ref().map(absolute).transpose()?,
        ..tls.clone()
    }))
}

/// Certificates are asked for, and none can be good.
fn authority_warning(settings: &Settings) -> Option<String> {
    let Settings { listen: Listen::Tcp(addresses), tls: Some(tls), .. } = settings else {
        return None;
    };
    let asks =
        |asked| addresses.iter().any(|address| address.security == ListenSecurity::Tls(asked));
    let warning = if tls.ca_file.is_some() {
        return None;
    } else if asks(ClientCertificates::Required) {
        "clients need certificates, and without -o ssl_ca_cert=FILE none is good"
    } else if asks(ClientCertificates::Optional) {
        "without -o ssl_ca_cert=FILE clients with a certificate are turned away"
    } else {
        return None;
    };
    Some(warning.to_owned())
}

fn move_budget(given: &Given, page_size_bytes: usize) -> MoveBudget {
    let default = MoveBudget::for_pages_of(page_size_bytes);
    MoveBudget {
        chunks_per_step: given.page_move_chunks.map_or(default.chunks_per_step, |n| n as usize),
        pages_per_second: given.page_move_rate.unwrap_or(default.pages_per_second),
    }
}

/// A daemon leaves its directory; the paths it was given stay where they are.
fn absolute(path: impl AsRef<Path>) -> Result<PathBuf, String> {
    let path = path.as_ref();
    std::path::absolute(path)
        .map_err(|error| format!("{}: cannot find the directory it is in: {error}", path.display()))
}

/// memcached, too, refuses to start where huge pages were asked for and cannot be had.
fn check_huge_pages() -> Result<(), String> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    match std::fs::read_to_string(path) {
        Ok(modes) if !modes.contains("[never]") => Ok(()),
        _ => Err(format!(
            "-L: this system gives no transparent huge pages: enable them in {path} or leave -L out"
        )),
    }
}
