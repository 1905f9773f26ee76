//! Tests of the command line: memcached's options keep their meaning, and errors name the remedy.

use super::option::ValueKind;
use super::table::{FLAGS, MISSING, extended, extended_names};
use super::{Listen, ListenAddress, ListenSecurity, Protocol, Request, Settings};
use super::{Running, Tunables, parse, report};
use crate::tls::{ClientCertificates, KeyFormat, TlsVersion};
use slabwise_engine::{ClassTable, EngineConfig, EvictionKind, MoverKind, SizeModel};
use slabwise_policy::{PagePolicy, Trigger};

fn request(args: &[&str]) -> Result<Request, String> {
    parse(args.iter().map(Into::into)).map_err(|error| error.to_string())
}

fn serve(args: &[&str]) -> (Settings, Vec<String>) {
    match request(args) {
        Ok(Request::Serve { settings, warnings }) => (*settings, warnings),
        other => panic!("{args:?} gave {other:?}"),
    }
}

fn settings(args: &[&str]) -> Settings {
    serve(args).0
}

fn refusal(args: &[&str]) -> String {
    let reason = request(args).expect_err("it must be refused");
    assert_eq!(reason.lines().count(), 1, "one line: {reason}");
    reason
}

fn stats_at_start(settings: &Settings) -> Vec<(&'static str, String)> {
    report(&Running {
        settings,
        tunables: Tunables::new(settings, &settings.engine),
        lru: settings.engine.eviction_options.lru,
        memory_limit_bytes: settings.engine.memory_limit_bytes,
        detail_enabled: settings.detail_enabled,
    })
}

/// Returns a valid value of an option; `None` for a switch.
fn sample(takes: &ValueKind, default: &str) -> Option<String> {
    match *takes {
        ValueKind::Nothing(_) | ValueKind::Number { absent: Some(_), .. } => None,
        ValueKind::Number { min, .. } if default.parse::<i64>().is_err() => Some(min.to_string()),
        ValueKind::Number { min, .. } if default == "0" => Some(min.max(0).to_string()),
        ValueKind::Number { .. } | ValueKind::Fraction { .. } | ValueKind::Octal(_) => {
            Some(default.to_owned())
        }
        ValueKind::Size(_) => Some("1m".to_owned()),
        ValueKind::Choice(words, _) => Some(words[0].to_owned()),
        ValueKind::Checked(
            "name[:option=value]..." | "sum|weighted:COST_MAX" | "N0[xN1[xN2]]",
            _,
        ) => Some(default.to_owned()),
        ValueKind::Checked("1|2", _) => Some("2".to_owned()),
        ValueKind::Checked("size-size-...", _) => Some("100-200".to_owned()),
        ValueKind::Text(..) | ValueKind::Checked(..) => Some("x".to_owned()),
    }
}

/// Options of features that slabwise does not support.
const REJECTED_EXTENDED: [&str; 1] = ["http"];

#[test]
fn accepts_memcacheds_flags_by_short_and_long_name() {
    let memcached = "aunix-mask Aenable-shutdown Zenable-ssl pport sunix-socket Uudp-port \
        mmemory-limit Mdisable-evictions cconn-limit klock-memory hhelp ilicense Vversion \
        renable-coredumps vverbose ddaemon llisten uuser Ppidfile fslab-growth-factor \
        nslab-min-size tthreads Lenable-largepages Rmax-reqs-per-event Cdisable-cas \
        blisten-backlog Bprotocol Imax-item-size Senable-sasl Fdisable-flush-all \
        Xdisable-dumping Wdisable-watch Yauth-file ememory-file oextended Nnapi-ids \
        Dprefix-delimiter";
    for names in memcached.split_whitespace() {
        let (short, long) = names.split_at(1);
        let row = FLAGS.iter().find(|row| row.name == long).expect(long);
        assert_eq!(row.short.expect(long).to_string(), short);
    }
    assert_eq!(FLAGS.len(), memcached.split_whitespace().count());
}

#[test]
fn accepts_a_valid_value_for_every_flag() {
    // -o and -Z have their own tests; -L depends on the machine.
    for row in FLAGS
        .iter()
        .filter(|row| !["extended", "enable-largepages", "enable-ssl"].contains(&row.name))
    {
        let value = sample(&row.takes, row.default);
        let short = format!("-{}", row.short.expect("flags have a short name"));
        let mut by_short = vec![short.clone()];
        by_short.extend(value.clone());
        let by_long = match &value {
            None => format!("--{}", row.name),
            Some(value) => format!("--{}={value}", row.name),
        };
        let by_short: Vec<&str> = by_short.iter().map(String::as_str).collect();
        for args in [by_short.as_slice(), &[by_long.as_str()]] {
            let outcome = request(args);
            outcome.unwrap_or_else(|reason| panic!("{args:?}: {reason}"));
        }
    }
}

#[test]
fn accepts_a_valid_value_for_every_extended_option() {
    for row in extended() {
        let element = match sample(&row.takes, row.default) {
            None => row.name.to_owned(),
            Some(value) => format!("{}={value}", row.name),
        };
        let outcome = request(&["-o", &element]);
        if REJECTED_EXTENDED.contains(&row.name) {
            let reason = outcome.expect_err(row.name);
            assert!(reason.contains("not supported yet"), "{reason}");
        } else {
            outcome.unwrap_or_else(|reason| panic!("{element}: {reason}"));
        }
    }
    for name in MISSING.iter().flat_map(|feature| feature.names()) {
        match request(&["-o", &format!("{name}=1")]) {
            Ok(Request::Serve { warnings, .. }) => assert!(warnings[0].contains(name)),
            Ok(Request::Print(text)) => panic!("{name} printed {text}"),
            Err(reason) => assert!(reason.contains(name)),
        }
    }
}

#[test]
fn names_are_unique() {
    let mut names: Vec<&str> = extended_names().collect();
    names.extend(FLAGS.iter().map(|row| row.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn an_unknown_option_suggests_the_most_similar_name() {
    for (args, meant) in [
        (vec!["--prto=1"], "'--port'"),
        (vec!["--memory-limt", "64"], "'--memory-limit'"),
        (vec!["-o", "slab_reasign"], "'slab_reassign'"),
        (vec!["-o", "idle_timout=3"], "'idle_timeout'"),
        (vec!["-o", "page_polcy=none"], "'page_policy'"),
    ] {
        let reason = refusal(&args);
        assert!(reason.contains(meant), "{args:?}: {reason}");
    }
    assert!(refusal(&["-z"]).starts_with("-z: "));
    assert!(!refusal(&["-o", "qqqqqq"]).contains("did you mean"));
}

#[test]
fn former_names_work_and_warn_once() {
    let given = ["-o", "page_policy=marginal:look_gets=7:look_gets=9", "-o", "cost=told,cost=told"];
    let (old, warnings) = serve(&given);
    assert_eq!(
        warnings,
        [
            "-o cost: told is now named client; the former name works until version 1.0",
            "-o page_policy: look_gets is now named evaluate_gets; the former name works until \
             version 1.0",
        ]
    );
    assert_eq!(old.page_policy.value("evaluate_gets").as_deref(), Some("9"));
    let (_, warnings) = serve(&["-o", "page_policy=marginal:evaluate_gets=9,cost=client"]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn measured_costs_warn_if_the_eviction_kind_ignores_costs() {
    assert!(!settings(&[]).costs_measured);
    assert!(!settings(&["-o", "cost=client"]).costs_measured);
    let (measured, warnings) = serve(&["-o", "cost=measured", "-D", "/"]);
    assert!(measured.costs_measured && measured.prefix_delimiter == '/', "{measured:?}");
    assert_eq!(warnings, [""; 0]);
    for kind in ["eviction=lru", "preset=memcached", "no_lru_maintainer"] {
        let (_, warnings) = serve(&["-o", &format!("cost=measured,{kind}")]);
        assert!(warnings[0].contains("cost=measured"), "{kind}: {warnings:?}");
    }
    assert!(refusal(&["-o", "cost=guessed"]).contains("client, measured"));
}

#[test]
fn an_invalid_value_is_rejected_with_the_allowed_values() {
    for (args, allowed) in [
        (vec!["-m", "64mb"], "whole number from 1"),
        (vec!["-c", "0"], "from 1"),
        (vec!["-t", "none"], "from 1"),
        (vec!["-t", "1025"], "from 1 to 1024"),
        (vec!["-p", "70000"], "from -1 to 65535"),
        (vec!["-f", "1.0"], "above 1"),
        (vec!["-I", "512"], "1024 bytes"),
        (vec!["-I", "40m"], "half of -m 64"),
        (vec!["-m", "4096", "-I", "1025m"], "1024m"),
        (vec!["-a", "9"], "octal"),
        (vec!["-B", "telnet"], "auto, ascii, binary"),
        (vec!["-S", "-B", "ascii"], "-B binary"),
        (vec!["-S", "-B", "auto"], "-B binary"),
        (vec!["-B", "ascii", "--enable-sasl"], "-B binary"),
        (vec!["-S", "-U", "11211"], "-U 0"),
        (vec!["-S", "-U", "11211", "-p", "0"], "-U 0"),
        (vec!["-S", "-U", "-1", "-s", "x"], "-U 0"),
        (vec!["-S", "-Y", "x"], "leave one of them out"),
        (vec!["-Y", "x", "-S", "-B", "binary"], "leave one of them out"),
        (vec!["-Z", "-p", "0", "-U", "11211"], "leave -Z out"),
        (vec!["-S", "-l", "proto[ascii]:127.0.0.1"], "proto[binary]"),
        (vec!["-S", "-l", "proto[negotiating]:127.0.0.1"], "proto[binary]"),
        (vec!["-m"], "needs a whole number"),
        (vec!["-o", "slab_automove=3"], "from 0 to 2"),
        (vec!["-o", "hash_algorithm=md5"], "jenkins, murmur3, xxh3"),
        (vec!["-o", "hot_lru_pct=50,warm_lru_pct=50"], "above 80"),
        (vec!["-o", "page_size=100000"], "power of two"),
        (vec!["-o", "page_size=64k,slab_chunk_max=512"], "at least 524288"),
        (vec!["-o", "page_policy=clever"], "none, automove_classic, automove, "),
        (vec!["-o", "page_policy=psa:miss=1"], "has no option 'miss': choose one of misses"),
        (vec!["-o", "page_policy=psa,objective=request_time"], "page_policy=lama"),
        (vec!["-o", "page_policy=lama,profile=off"], "leave profile=off out, or choose another"),
        (vec!["-o", "profile_memory=1k"], "is below the minimum"),
        (vec!["-o", "slab_sizes=100-90"], "ascending"),
        (vec!["-o", "no_lru_maintainer,temporary_ttl=5"], "needs the LRU maintainer"),
        (vec!["-o", "idle_timeout"], "needs a whole number"),
    ] {
        let reason = refusal(&args);
        assert!(reason.contains(allowed), "{args:?}: {reason}");
    }
}

#[test]
fn values_may_be_attached_repeated_and_bundled() {
    let settings = settings(&["-vvm100", "-t2", "--thread=3", "-c", " 7", "-Mv", "-p-1"]);
    assert_eq!(settings.tunables.verbosity, 3);
    assert_eq!(settings.engine.memory_limit_bytes, 100 << 20);
    assert_eq!(settings.threads, 3);
    assert_eq!(settings.connections_max, 7);
    assert!(!settings.engine.eviction_enabled);
    let Listen::Tcp(addresses) = settings.listen else { panic!("it listens on the network") };
    assert_eq!((addresses.len(), &addresses[0].host, addresses[0].port), (1, &None, 0));
}

#[test]
fn what_has_no_effect_says_so() {
    let (_, warnings) = serve(&["-o", "hashpower=20,no_hashexpand,modern", "-N", "2", "start"]);
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    let (_, warnings) = serve(&["-U", "11211", "-s", "socket"]);
    assert!(warnings[0].contains("disables the network"), "{warnings:?}");
    let (_, warnings) =
        serve(&["-U", "0", "-m", "128", "-o", "modern,lru_crawler,no_inline_ascii_resp"]);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn udp_uses_the_addresses_of_tcp_with_its_own_port() {
    let (security, protocol) = (ListenSecurity::Plain, Protocol::Auto);
    let place = |host, port| ListenAddress { host, port, security, protocol };
    let everywhere = |port| vec![place(None, port)];
    let at = |host: &str, port| place(Some(host.to_owned()), port);
    assert_eq!(settings(&[]).udp, []);
    assert_eq!(settings(&["-U", "0"]).udp, []);
    let one = settings(&["-U", "5"]);
    assert_eq!(one.udp, everywhere(5));
    assert_eq!(one.listen, Listen::Tcp(everywhere(5)), "-U sets the TCP port without -p");
    let two = settings(&["-U", "5", "-p", "6", "-l", "a,b:7"]);
    assert_eq!(two.udp, [at("a", 5), at("b", 7)]);
    assert_eq!(two.listen, Listen::Tcp(vec![at("a", 6), at("b", 7)]));
    assert_eq!(settings(&["-U", "-1"]).udp, everywhere(0));
    assert_eq!(settings(&["-U", "5", "-p", "0"]).listen, Listen::Tcp(vec![]));
    let (unreachable, warnings) = serve(&["-p", "0"]);
    assert_eq!(unreachable.listen, Listen::Tcp(vec![]));
    assert!(warnings[0].contains("-p -1"), "{warnings:?}");
    assert_eq!(settings(&["-U", "5", "-s", "socket"]).udp, []);
}

#[test]
fn ascii_authentication_rejects_other_protocols() {
    for (args, reason) in [
        (vec!["-Y", "x", "-U", "5"], "give -U 0"),
        (vec!["-Y", "x", "-B", "auto"], "give -B ascii"),
        (vec!["-Y", "x", "-l", "a:1,proto[binary]:b:2"], "give proto[ascii]"),
        (vec!["-Y", ""], "needs file"),
    ] {
        let refused = refusal(&args);
        assert!(refused.contains(reason), "{args:?}: {refused}");
    }
    let negotiating = settings(&["-Y", "x", "-l", "proto[negotiating]:a"]);
    let Listen::Tcp(addresses) = &negotiating.listen else { panic!("it listens on the network") };
    assert_eq!(addresses[0].protocol, Protocol::Ascii);
    let settings = settings(&["-Y", "x", "-U", "0"]);
    assert_eq!(settings.auth_file, std::path::absolute("x").ok());
    let reported = stats_at_start(&settings);
    assert!(reported.contains(&("auth_enabled_ascii", "x".to_owned())));
    assert!(reported.contains(&("binding_protocol", "ascii".to_owned())));
}

#[test]
fn without_options_the_engine_has_slabwise_defaults() {
    let engine = settings(&[]).engine;
    let own = EngineConfig::new(64 << 20);
    assert_eq!(engine.classes, own.classes);
    assert_eq!(engine.page_size_bytes, own.page_size_bytes);
    assert_eq!(engine.item_size_bytes_max, own.item_size_bytes_max);
    assert_eq!(engine.eviction_options.lru, own.eviction_options.lru);
    assert_eq!(engine.size_model, SizeModel::Exact);
}

#[test]
fn the_memcached_preset_has_memcacheds_defaults() {
    let engine = settings(&["-o", "preset=memcached"]).engine;
    assert_eq!(engine.page_size_bytes, 1 << 20);
    assert_eq!(engine.classes, ClassTable::geometric(96, 1.25, 512 << 10));
    assert_eq!(engine.size_model, SizeModel::Memcached);
    assert!(engine.first_page_beyond_limit);
    assert_eq!(engine.mover, MoverKind::STOCK);
    // Explicit options override the preset in any order.
    let engine = settings(&["-f", "1.5", "-n", "100", "-o", "preset=memcached"]).engine;
    assert_eq!(engine.classes, ClassTable::geometric(148, 1.5, 512 << 10));
}

#[test]
fn the_page_size_grows_with_the_largest_chunk() {
    let default = settings(&[]).engine.page_size_bytes;
    let raised = settings(&["-o", "slab_chunk_max=512"]).engine;
    assert_eq!(raised.page_size_bytes, 512 << 10);
    assert_eq!(raised.classes.chunk_size_bytes(raised.classes.largest()), 512 << 10);
    let largest = |args: &[&str]| {
        let classes = settings(args).engine.classes;
        classes.chunk_size_bytes(classes.largest())
    };
    assert_eq!(largest(&["-o", "slab_chunk_max=1024"]), 1 << 20);
    assert_eq!(largest(&["-o", "slab_chunk_max=16384"]), 16 << 10, "kilobytes would be 16 MB");
    assert_eq!(largest(&["-I", "1024", "-o", "slab_chunk_max=1024"]), 1024);
    let listed = settings(&["-o", "slab_sizes=100-1000-100000"]).engine;
    assert_eq!(listed.page_size_bytes, 128 << 10);
    assert_eq!(listed.classes.sizes(), [104, 1000, 100_000]);
    let short = settings(&["-o", "slab_sizes=100-1000"]).engine;
    assert_eq!(short.classes.sizes(), [104, 1000, default as u32 / 2]);
    let large = settings(&["-m", "4096", "-I", "1024m"]).engine;
    assert_eq!(large.page_size_bytes, 2 << 20);
}

#[test]
fn rejects_pages_above_the_engines_limit() {
    let large = ["-m", "1024", "-o", "page_size=32m"];
    assert!(refusal(&large).contains("to 16777216 (16m)"), "{}", refusal(&large));
    let listed = ["-m", "1024", "-I", "64m", "-o", "slab_sizes=100-40000000"];
    assert!(refusal(&listed).contains("above the largest page"), "{}", refusal(&listed));
}

#[test]
fn no_modern_sets_the_defaults_of_memcached_1_4() {
    let old = settings(&["-o", "no_modern"]);
    assert_eq!(old.engine.eviction, EvictionKind::Lru);
    assert_eq!(old.tunables.automove.level, 0);
    assert!(!old.reassign_enabled && !old.lru_maintainer && !old.maxconns_fast);
    assert_eq!(settings(&["-o", "eviction=lru"]).engine.eviction, EvictionKind::Lru);
}

#[test]
fn accepts_every_page_policy_with_its_options() {
    let policy = |options: &str| settings(&["-o", options]).page_policy;
    assert_eq!(settings(&[]).page_policy.name(), "marginal");
    assert_eq!(policy("profile=off").name(), "space_time", "the best policy without profiles");
    assert_eq!(policy("preset=memcached").name(), "automove");
    for name in PagePolicy::NAMES {
        assert_eq!(policy(&format!("page_policy={name}")).name(), name);
    }
    assert_eq!(policy("page_policy=psa:misses=7").trigger(), Trigger::EveryMisses(7));
    let debug = |options: &str| format!("{:?}", policy(options));
    let by_time = debug("page_policy=lama:objective=request_time");
    assert_eq!(debug("objective=request_time,page_policy=lama"), by_time);
    assert_ne!(debug("page_policy=lama"), by_time);
    assert_eq!(debug("page_policy=lama,objective=miss_ratio"), debug("page_policy=lama"));
    assert_eq!(policy("objective=miss_ratio").name(), "marginal");
    let without = policy("objective=miss_ratio,profile=off");
    assert_eq!(without.name(), "space_time", "every policy minimizes misses");
}

#[test]
fn reports_the_automovers_settings_under_every_policy() {
    let reported = |options: &str| {
        let settings = settings(&["-o", options]);
        (settings.tunables.automove.window_seconds, settings.tunables.automove.age_ratio)
    };
    assert_eq!(reported("page_policy=automove:window_len=30"), (30, 0.8));
    assert_eq!(reported("page_policy=automove,slab_automove_ratio=0.5"), (10, 0.5));
    assert_eq!(reported("slab_automove_window=20,slab_automove_ratio=0.5"), (20, 0.5));
}

#[test]
fn profiling_uses_the_memory_of_profile_memory() {
    let keys_max = |args: &[&str]| settings(args).profiling.map(|it| it.profiler.keys_max);
    let default = keys_max(&[]).expect("it is on");
    assert!((20_000..40_000).contains(&default), "{default}");
    let large = keys_max(&["-m", "1024"]).expect("it is on");
    assert!((200_000..400_000).contains(&large), "{large}");
    assert!(keys_max(&["-o", "profile_memory=8m"]).is_some_and(|keys| keys > default));
    assert_eq!(keys_max(&["-o", "profile=off"]), None);
    assert_eq!(keys_max(&["-o", "preset=memcached"]), None);
    assert!(keys_max(&["-o", "preset=memcached,profile=on"]).is_some());
    for options in ["profile=off,profile_memory=8m", "profile_memory=8m,preset=memcached"] {
        let (_, warnings) = serve(&["-o", options]);
        assert!(warnings[0].contains("profile_memory=8388608 has no effect"), "{warnings:?}");
    }
    assert_eq!(serve(&["-o", "profile_memory=8m"]).1, Vec::<String>::new());
}

#[test]
fn a_unix_socket_replaces_the_network() {
    let settings = settings(&["-s", "/tmp/x.sock", "-a", "0770", "-p", "0"]);
    assert_eq!(settings.listen, Listen::Unix { path: "/tmp/x.sock".into(), mode: 0o770 });
}

#[test]
fn tls_options_set_the_tls_settings() {
    assert_eq!(settings(&[]).tls, None);
    assert!(refusal(&["-Z"]).contains("ssl_chain_cert=FILE"));
    let tls = settings(&["-Z", "-o", "ssl_chain_cert=/c,ssl_key=/k"]).tls.expect("it is on");
    assert_eq!(tls.chain_file.to_str(), Some("/c"));
    assert_eq!(tls.write_buffer_bytes, 16 << 10);
    assert_eq!((tls.version_min, tls.key_format), (TlsVersion::V1_2, KeyFormat::Pem));
    let options = "ssl_chain_cert=/c,ssl_verify_mode=2,ssl_ca_cert=/a,ssl_wbuf_size=64,\
                   ssl_min_version=3,ssl_session_cache,ssl_keyformat=2,ssl_ciphers=HIGH:!RC4";
    let (all, warnings) = serve(&["-Z", "-o", options, "-B", "ascii"]);
    assert_eq!(warnings, Vec::<String>::new());
    let Listen::Tcp(addresses) = &all.listen else { panic!("it listens on the network") };
    let security = ListenSecurity::Tls(ClientCertificates::Required);
    assert_eq!((addresses[0].security, addresses[0].protocol), (security, Protocol::Ascii));
    let stats = stats_at_start(&all);
    for (name, value) in [
        ("ssl_enabled", "yes"),
        ("ssl_chain_cert", "/c"),
        ("ssl_key", "(null)"),
        ("ssl_verify_mode", "3"),
        ("ssl_keyformat", "2"),
        ("ssl_ciphers", "HIGH:!RC4"),
        ("ssl_ca_cert", "/a"),
        ("ssl_wbuf_size", "65536"),
        ("ssl_session_cache", "yes"),
        ("ssl_min_version", "tlsv1.3"),
    ] {
        assert!(stats.contains(&(name, value.to_owned())), "{name} is not {value}: {stats:?}");
    }
}

#[test]
fn tls_options_without_support_warn() {
    let warnings = |options: &str| serve(&["-Z", "-o", &format!("ssl_chain_cert=/c,{options}")]).1;
    assert!(warnings("ssl_min_version=1")[0].contains("means 2"));
    assert!(warnings("ssl_wbuf_size=5000")[0].contains("1024 is used"));
    assert!(warnings("ssl_kernel_tls")[0].contains("no effect"));
    assert!(warnings("ssl_verify_mode=2")[0].contains("ssl_ca_cert=FILE"));
    assert!(warnings("ssl_verify_mode=1")[0].contains("are rejected"));
    assert!(refusal(&["-o", "ssl_keyformat=ENGINE"]).contains("openssl pkey"));
    assert!(refusal(&["-o", "ssl_verify_mode=4"]).contains("from 0 to 3"));
    let (settings, warnings) = serve(&["-o", "ssl_chain_cert=/c"]);
    assert_eq!(settings.tls, None);
    assert!(warnings[0].contains("not encrypted"), "{warnings:?}");
}

fn printed(argument: &str) -> String {
    match request(&[argument]) {
        Ok(Request::Print(text)) => text,
        other => panic!("{argument} gave {other:?}"),
    }
}

#[test]
fn the_short_help_fits_on_two_screens() {
    let help = printed("-h");
    assert_eq!(help, printed("--help"));
    assert!(help.lines().count() <= 48, "{} lines", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    let last = help.lines().last().expect("the help is not empty");
    assert!(last.contains("--help=policies") && last.contains("--help=all"), "{last}");
    for feature in ["enable-sasl", "enable-ssl", "unix-socket"] {
        assert!(help.contains(feature), "memcached's tests search for {feature}");
    }
}

#[test]
fn the_whole_help_and_the_manual_page_list_every_option() {
    let (help, page) = (printed("--help=all"), printed("--help=man"));
    for row in FLAGS.iter().chain(extended()) {
        assert!(help.contains(row.name), "{} is missing", row.name);
        let name = row.name.replace('-', "\\-");
        assert!(page.contains(&format!("{name}\\fR")), "{name} is missing in the page");
    }
    let policies = printed("--help=policies");
    assert!(help.ends_with(&policies));
    for name in PagePolicy::NAMES {
        assert!(policies.contains(&format!("\n  {name}\n")), "{name}");
        assert!(page.contains(&format!("\n.SS {name}\n")), "{name}");
    }
    for name in MISSING.iter().flat_map(|feature| feature.names()) {
        assert!(!help.contains(name), "{name} is not supported");
    }
}

#[test]
fn an_unknown_help_topic_is_an_error() {
    let error = refusal(&["--help=polices"]);
    assert!(error.contains("'polices'") && error.contains("policies, all, man"), "{error}");
}

#[test]
fn version_and_license_are_printed() {
    assert!(printed("-V").contains("slabwise"));
    assert!(printed("-i").contains("Apache"));
}

#[test]
fn stats_settings_has_memcacheds_names_and_formats() {
    let settings = settings(&["-m", "100", "-l", "127.0.0.1,::1", "-o", "preset=memcached"]);
    let stats = stats_at_start(&settings);
    let value = |name: &str| {
        let line = stats.iter().find(|(stat, _)| *stat == name).expect(name);
        line.1.clone()
    };
    assert_eq!(stats[0], ("maxbytes", "104857600".to_owned()));
    assert_eq!(value("inter"), "127.0.0.1,::1");
    assert_eq!(value("growth_factor"), "1.25");
    assert_eq!(value("num_threads_per_udp"), "1");
    assert_eq!(value("slab_chunk_max"), "524288");
    assert_eq!(value("binding_protocol"), "auto-negotiate");
    assert_eq!(value("umask"), "700");
    assert_eq!(value("evictions"), "on");
    let mut names: Vec<&str> = stats.iter().map(|(name, _)| *name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "no name twice");
}

#[test]
fn sasl_requires_the_binary_protocol() {
    for (args, protocol, sasl_enabled) in [
        (&[][..], Protocol::Auto, false),
        (&["-B", "auto"], Protocol::Auto, false),
        (&["-B", "ascii"], Protocol::Ascii, false),
        (&["-B", "binary"], Protocol::Binary, false),
        (&["-S"], Protocol::Binary, true),
        (&["-B", "binary", "-S"], Protocol::Binary, true),
    ] {
        let (settings, _) = serve(args);
        assert_eq!(
            (settings.protocol, settings.sasl_enabled),
            (protocol, sasl_enabled),
            "{args:?}"
        );
    }
    let (_, warnings) = serve(&["-S"]);
    assert!(warnings.iter().any(|warning| warning.contains("MEMCACHED_SASL_PWDB")), "{warnings:?}");
}
