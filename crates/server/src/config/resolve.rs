//! Derives the settings from the given options: sets the defaults that depend on other options, and rejects options
//! that conflict.

use super::draft::{Draft, Given, THREADS_DEFAULT_MAX};
use super::engine::{engine_config, growth_factor};
use super::http::{HttpAddress, HttpGivenAddress, HttpSettings};
use super::listen::parse_list;
use super::paths::absolute;
use super::policy;
use super::settings::{Listen, ListenAddress, ListenSecurity, Protocol, Settings};
use crate::tls::{ClientCertificates, TlsSettings};
use slabwise_engine::HugePages;
use slabwise_policy::sizes::Method;
use slabwise_tuner::{MoveBudget, MoveShares};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// memcached's environment variable that names the password file of `-S`.
const SASL_PASSWORD_FILE_VARIABLE: &str = "MEMCACHED_SASL_PWDB";
const PORT_DEFAULT: i32 = 11_211;
/// The number of workers above which the server warns.
const THREADS_USUAL_MAX: usize = 64;

/// Returns the settings and the warnings, or an error if options conflict.
pub(super) fn resolve(mut draft: Draft) -> Result<(Settings, Vec<String>), String> {
    draft.settings.threads = draft.threads();
    draft.settings.engine = engine_config(&draft)?;
    draft.settings.tunables.memory_limit_option_bytes = draft.settings.engine.memory_limit_bytes;
    draft.settings.protocol = protocol(&draft)?;
    resolve_network(&mut draft)?;
    warn_of_useless_options(&mut draft);
    if draft.given.huge_pages == Some(HugePages::Requested) {
        check_huge_pages()?;
    }
    policy::resolve(&mut draft)?;
    draft.settings.sasl_password_file = sasl_password_file(&mut draft)?;
    draft.settings.http = http(&mut draft)?;
    draft.settings.control_path = control_path(&draft.given)?;
    draft.settings.tunables.set_learns_classes = set_learns_classes(&draft)?;
    draft.settings.classes_method = classes_method(&draft);
    let Draft { mut settings, given, warnings } = draft;
    settings.growth_factor = growth_factor(&given);
    settings.chunk_size_bytes = given.chunk_size_bytes.unwrap_or(settings.chunk_size_bytes);
    settings.move_budget = move_budget(&given);
    settings.auth_file = settings.auth_file_as_given.as_ref().map(absolute).transpose()?;
    for path in [&mut settings.memory_file, &mut settings.process.pid_file] {
        *path = path.as_ref().map(absolute).transpose()?;
    }
    Ok((settings, warnings))
}

impl Default for Settings {
    /// Returns the settings of a command line without options.
    fn default() -> Settings {
        resolve(Draft::default()).expect("the defaults do not conflict").0
    }
}

/// Returns the protocol of listeners (`-B`). With authentication the server serves only one protocol: the binary
/// protocol with `-S`, the ASCII protocol with `-Y`.
fn protocol(draft: &Draft) -> Result<Protocol, String> {
    let Draft { settings, given, .. } = draft;
    let (option, needed) = match (settings.sasl_enabled, settings.auth_file_as_given.is_some()) {
        (false, false) => return Ok(given.protocol.unwrap_or(Protocol::Auto)),
        (true, false) => ("-S", Protocol::Binary),
        (false, true) => ("-Y", Protocol::Ascii),
        (true, true) => {
            return Err(
                "-S requires the binary protocol and -Y requires the ASCII protocol: leave one \
                        of them out"
                    .to_owned(),
            );
        }
    };
    let port = settings.udp_port;
    if port != 0 {
        return Err(format!(
            "-U {port} conflicts with {option}, as UDP clients cannot authenticate: give -U 0"
        ));
    }
    match given.protocol.filter(|&protocol| protocol != needed).map(Protocol::name) {
        None => Ok(needed),
        Some(name) if needed == Protocol::Binary => Err(format!(
            "-B {name} conflicts with -S, which requires the binary protocol: give -B binary or \
             leave -B out"
        )),
        Some(name) => Err(format!(
            "-B {name} conflicts with -Y, which requires the ASCII protocol: give -B ascii or \
             leave -B out"
        )),
    }
}

/// Sets the listening addresses, the ports and TLS in the draft's settings. Checks the number of workers.
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
            "-t {threads}: more than {THREADS_USUAL_MAX} workers rarely increase the throughput: give one worker per \
             core"
        ));
    }
    // -N has no effect. A command line with which memcached starts is accepted on a small machine, too.
    let napi_ids_max = draft.given.threads.unwrap_or(THREADS_DEFAULT_MAX);
    if napi_ids as usize > napi_ids_max {
        return Err(format!("-N {napi_ids} is above -t {napi_ids_max}: raise -t or lower -N"));
    }
    Ok(())
}

/// Warns of `-C`, which saves no memory in slabwise, and of `cost=measured` with an eviction kind that ignores costs.
fn warn_of_useless_options(draft: &mut Draft) {
    if !draft.settings.cas_enabled {
        draft.warn("-C saves no memory: slabwise needs no extra memory for CAS values");
    }
    let eviction = draft.settings.engine.eviction;
    if draft.settings.costs_measured && !eviction.info().uses_costs {
        let name = eviction.name();
        draft.warn(format!(
            "-o cost=measured has no effect on eviction={name}, which ignores costs: leave it out, or \
             give another eviction kind"
        ));
    }
}

/// Returns the method by which the server learns the class table.
fn classes_method(draft: &Draft) -> Method {
    let given = draft.given.classes.and_then(|value| value.split_once(":method="));
    // `-o classes` accepts only the names of methods.
    given.and_then(|(_, name)| name.parse().ok()).unwrap_or_default()
}

/// Returns true if the server adjusts the class table to the sizes of items (`-o classes`). By default the server does
/// so unless `-f`, `-n` or `slab_sizes` set the chunk sizes, `preset=memcached` is given, or `-M` or `no_slab_reassign`
/// makes a change of the class table impossible.
fn set_learns_classes(draft: &Draft) -> Result<bool, String> {
    let Draft { settings, given, .. } = draft;
    let moves_pages = settings.reassign_enabled;
    let evicts = settings.engine.eviction_enabled;
    let source = given.classes.map(|value| value.split_once(':').map_or(value, |(name, _)| name));
    match source {
        // A change of the table copies items to other chunks. With a full cache and without evictions there is no
        // memory for the copies.
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

/// Returns the password file of `-S`, or `None` without `-S`. As in memcached, every authentication fails if the
/// environment variable is not set.
fn sasl_password_file(draft: &mut Draft) -> Result<Option<PathBuf>, String> {
    if !draft.settings.sasl_enabled {
        return Ok(None);
    }
    let path = std::env::var_os(SASL_PASSWORD_FILE_VARIABLE);
    if path.is_none() {
        draft.warn(format!(
            "-S: {SASL_PASSWORD_FILE_VARIABLE} is not set, so every authentication fails: set it to \
             a file of user:password lines"
        ));
    }
    path.map(absolute).transpose()
}

/// The environment variable by which systemd names the folders of `RuntimeDirectory=`, with colons between them.
const RUNTIME_DIRECTORY_VARIABLE: &str = "RUNTIME_DIRECTORY";

/// The folder of the control socket without this variable.
const RUNTIME_DIRECTORY: &str = "/run/slabwise";

/// Returns the path of the control socket: by default in the folder that the service manager has made for the server.
fn control_path(given: &Given) -> Result<Option<PathBuf>, String> {
    if !given.upgradable {
        return Ok(None);
    }
    let path = given.control_path.as_ref().map(PathBuf::from);
    let default = || control_folder(std::env::var_os(RUNTIME_DIRECTORY_VARIABLE)).join("control");
    absolute(path.unwrap_or_else(default)).map(Some)
}

/// Returns the folder of the control socket. systemd sorts the folders of the variable, and another folder may be for the
/// Unix socket of `-s`, so the folder with a name of slabwise is preferred.
fn control_folder(variable: Option<OsString>) -> PathBuf {
    let variable = variable.unwrap_or_default();
    let folders = || variable.as_bytes().split(|&byte| byte == b':').filter(|it| !it.is_empty());
    let is_ours = |folder: &[u8]| {
        let name = Path::new(OsStr::from_bytes(folder)).file_name().unwrap_or_default();
        name.as_bytes().starts_with(b"slabwise")
    };
    let found = folders().find(|it| is_ours(it)).or_else(|| folders().next());
    found.map_or(PathBuf::from(RUNTIME_DIRECTORY), |it| PathBuf::from(OsStr::from_bytes(it)))
}

/// Returns the listening sockets for connections.
fn listen(draft: &mut Draft) -> Result<Listen, String> {
    if let Some(path) = &draft.given.unix_path {
        let mode = draft.given.unix_mode();
        return Ok(Listen::Unix { path: absolute(path)?, mode });
    }
    let port = match draft.settings.tcp_port {
        0 if draft.given.tls_enabled => {
            return Err(
                "-Z needs TCP, which -p 0 disables: give another port with -p, or leave -Z out"
                    .to_owned(),
            );
        }
        0 => {
            if draft.settings.udp_port == 0 {
                draft.warn(
                    "-p 0 disables TCP, and without -s or -U no client can connect: give -p -1 for \
                     any free port, or -s FILE, or -U PORT",
                );
            }
            return Ok(Listen::Tcp(Vec::new()));
        }
        port => port,
    };
    let (mut addresses, warnings) = addresses(draft, port)?;
    draft.warnings.extend(warnings);
    require_authentication(&draft.settings, &mut addresses)?;
    Ok(Listen::Tcp(addresses))
}

/// Returns the addresses of `-l`, by default all interfaces, and the warnings. An address without a port gets `port`;
/// if `port` is -1, the kernel chooses any free port.
fn addresses(draft: &Draft, port: i32) -> Result<(Vec<ListenAddress>, Vec<String>), String> {
    let Draft { settings, given, .. } = draft;
    let security = match given.tls_enabled {
        true => ListenSecurity::Tls(given.tls.verify_mode.client_certificates()),
        false => ListenSecurity::Plain,
    };
    // The kernel chooses a free port if the port is 0.
    let port = u16::try_from(port).unwrap_or(0);
    let all_interfaces = ListenAddress { host: None, port, security, protocol: settings.protocol };
    if settings.interfaces.is_empty() {
        return Ok((vec![all_interfaces], Vec::new()));
    }
    parse_list(&settings.interfaces, &all_interfaces)
}

/// Returns an error if `-S` or `-Y` requires authentication but an address accepts a protocol without authentication.
/// As in memcached, `-Y` changes an address that accepts both protocols to accept only ASCII.
fn require_authentication(
    settings: &Settings,
    addresses: &mut [ListenAddress],
) -> Result<(), String> {
    for address in addresses {
        match address.protocol {
            Protocol::Ascii | Protocol::Auto if settings.sasl_enabled => {
                return Err(format!(
                    "-l {address}: the protocol conflicts with -S, which requires the binary protocol: give \
                     proto[binary]"
                ));
            }
            Protocol::Binary if settings.auth_file_as_given.is_some() => {
                return Err(format!(
                    "-l {address}: proto[binary] conflicts with -Y, which requires the ASCII \
                     protocol: give proto[ascii]"
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

/// Returns the UDP addresses. As in memcached, the server listens on every address of `-l` for both TCP and UDP.
fn udp(draft: &mut Draft) -> Result<Vec<ListenAddress>, String> {
    let port = draft.settings.udp_port;
    if port == 0 {
        return Ok(Vec::new());
    }
    if draft.given.unix_path.is_some() {
        draft.warn(format!(
            "-U {port} has no effect, as -s disables the network: leave one of them out"
        ));
        return Ok(Vec::new());
    }
    if draft.given.tls_enabled {
        draft.warn(format!(
            "-U {port}: -Z does not encrypt UDP, and UDP clients need no certificate: leave -U out if this \
             is not intended"
        ));
    }
    // The warnings are omitted, because `listen` has already reported them.
    addresses(draft, port).map(|(addresses, _)| addresses)
}

/// Returns the settings of TLS, or `None` without `-Z`.
fn tls(draft: &mut Draft) -> Result<Option<TlsSettings>, String> {
    let Given { tls, tls_enabled, tls_names, .. } = &draft.given;
    if !tls_enabled {
        if !tls_names.is_empty() {
            let names = tls_names.join(", ");
            draft.warn(format!(
                "without -Z traffic is not encrypted, and these options have no effect: {names}"
            ));
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

/// Returns the settings of the HTTP server, or `None` without `-o http`. Warns of options that have no effect then.
fn http(draft: &mut Draft) -> Result<Option<HttpSettings>, String> {
    let mode = draft.given.unix_mode();
    let given = std::mem::take(&mut draft.given.http);
    let Some(address) = given.address else {
        if given.token_file.is_some()
            || given.is_insecure
            || !given.hosts.is_empty()
            || given.omits_slab_metrics
            || given.hot_keys > 0
        {
            draft.warn(
                "the options http_* have no effect without -o http=ADDR: add it, or leave them out",
            );
        }
        return Ok(None);
    };
    Ok(Some(HttpSettings {
        address: match address {
            HttpGivenAddress::Tcp { host, port } => HttpAddress::Tcp { host, port },
            HttpGivenAddress::Unix(path) => HttpAddress::Unix { path, mode },
        },
        token_file: given.token_file.map(absolute).transpose()?,
        is_insecure: given.is_insecure,
        hosts: given.hosts,
        has_slab_metrics: !given.omits_slab_metrics,
        hot_keys: given.hot_keys,
    }))
}

/// Returns a warning if a listener requests client certificates but no authority can verify them.
fn authority_warning(settings: &Settings) -> Option<String> {
    let Settings { listen: Listen::Tcp(addresses), tls: Some(tls), .. } = settings else {
        return None;
    };
    let has_listener =
        |mode| addresses.iter().any(|address| address.security == ListenSecurity::Tls(mode));
    let warning = if tls.ca_file.is_some() {
        return None;
    } else if has_listener(ClientCertificates::Required) {
        "client certificates are required, but without -o ssl_ca_cert=FILE all certificates are rejected"
    } else if has_listener(ClientCertificates::Optional) {
        "client certificates are requested, but without -o ssl_ca_cert=FILE clients with a certificate are \
         rejected"
    } else {
        return None;
    };
    Some(warning.to_owned())
}

/// Returns the move budget: the values of `-o page_move_chunks`, `page_move_share` and `page_move_share_max`, or the
/// defaults. The larger share is at least the smaller one.
fn move_budget(given: &Given) -> MoveBudget {
    let MoveBudget { chunks_per_step, shares } = MoveBudget::default();
    let share_of = |percent: u32| f64::from(percent) / 100.0;
    let steady = given.page_move_share.map_or(shares.steady, share_of);
    let pressed = given.page_move_share_max.map_or(shares.pressed, share_of).max(steady);
    MoveBudget {
        chunks_per_step: given.page_move_chunks.map_or(chunks_per_step, |n| n as usize),
        shares: MoveShares { steady, pressed },
    }
}

/// Returns an error if transparent huge pages are disabled. With `-L`, memcached also does not start in this case.
fn check_huge_pages() -> Result<(), String> {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    match std::fs::read_to_string(path) {
        Ok(modes) if !modes.contains("[never]") => Ok(()),
        _ => Err(format!(
            "-L: transparent huge pages are not available: enable them in {path}, or leave -L out"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::control_folder;
    use std::ffi::OsString;
    use std::path::Path;

    #[test]
    fn the_control_socket_is_in_the_folder_of_slabwise() {
        let folder = |variable: &str| control_folder(Some(OsString::from(variable)));
        assert_eq!(folder("/run/memcached:/run/slabwise"), Path::new("/run/slabwise"));
        assert_eq!(folder("/run/a:/run/slabwise-one"), Path::new("/run/slabwise-one"));
        assert_eq!(folder("/run/cache"), Path::new("/run/cache"));
        assert_eq!(folder(""), Path::new("/run/slabwise"));
        assert_eq!(control_folder(None), Path::new("/run/slabwise"));
    }
}
