//! Tests of the settings that result from options, and of the warnings about options without effect.

use super::{refusal, serve, settings, stats_at_start};
use crate::config::{Listen, ListenAddress, ListenSecurity, Protocol, Request, parse};
use crate::tls::{ClientCertificates, KeyFormat, TlsVersion};
use slabwise_engine::{ClassTable, EngineConfig, EvictionKind, HugePages, MoverKind, SizeModel};
use slabwise_policy::sizes::Method;
use slabwise_policy::{PagePolicy, Trigger};

#[test]
fn measured_costs_cause_a_warning_if_the_eviction_kind_ignores_costs() {
    assert!(!settings(&[]).costs_measured);
    assert!(!settings(&["-o", "cost=client"]).costs_measured);
    let (measured, warnings) = serve(&["-o", "cost=measured", "-D", "/"]);
    assert!(
        measured.costs_measured && measured.prefix_delimiter == '/',
        "the settings are {measured:?}"
    );
    assert_eq!(warnings, [""; 0]);
    for kind in ["eviction=lru", "preset=memcached", "no_lru_maintainer"] {
        let (_, warnings) = serve(&["-o", &format!("cost=measured,{kind}")]);
        assert!(warnings[0].contains("cost=measured"), "{kind}: {warnings:?}");
    }
    assert!(refusal(&["-o", "cost=guessed"]).contains("client, measured"));
}

#[test]
fn by_default_each_processor_has_a_worker_up_to_four() {
    let threads = |processors, args: &[&str]| match parse(args.iter().map(Into::into), processors) {
        Ok(Request::Serve { settings, .. }) => settings.threads,
        other => panic!("{args:?} must start the server, not {other:?}"),
    };
    for (processors, expected) in [(1, 1), (3, 3), (4, 4), (64, 4)] {
        assert_eq!(threads(processors, &[]), expected);
        assert_eq!(threads(processors, &["-o", "preset=memcached"]), expected);
        assert_eq!(threads(processors, &["-t", "9"]), 9);
        // memcached accepts this command line on each machine.
        assert_eq!(threads(processors, &["-N", "4"]), expected);
    }
    assert_eq!(settings(&[]).threads, 4);
    assert!(refusal(&["-N", "5"]).contains("-t 4"));
    assert!(refusal(&["-t", "2", "-N", "3"]).contains("-t 2"));
}

#[test]
fn huge_pages_are_requested_unless_an_option_refuses_them() {
    let huge_pages = |args: &[&str]| settings(args).engine.huge_pages;
    assert_eq!(huge_pages(&[]), HugePages::Requested);
    assert_eq!(huge_pages(&["-o", "no_huge_pages"]), HugePages::Refused);
    assert_eq!(huge_pages(&["-o", "preset=memcached"]), HugePages::BySystem);
    // The last option counts. Whether `-L` as the last option is accepted depends on the machine.
    assert_eq!(huge_pages(&["-L", "-o", "no_huge_pages"]), HugePages::Refused);
}

#[test]
fn options_without_effect_cause_warnings() {
    let (_, warnings) = serve(&["-o", "hashpower=20,no_hashexpand,modern", "-N", "2", "start"]);
    assert_eq!(warnings.len(), 4, "the warnings are {warnings:?}");
    let (_, warnings) = serve(&["-U", "11211", "-s", "socket"]);
    assert!(warnings[0].contains("disables the network"), "the warnings are {warnings:?}");
    let (_, warnings) =
        serve(&["-U", "0", "-m", "128", "-o", "modern,lru_crawler,no_inline_ascii_resp"]);
    assert_eq!(warnings, Vec::<String>::new());
}

#[test]
fn udp_uses_the_addresses_of_tcp_with_its_own_port() {
    let (security, protocol) = (ListenSecurity::Plain, Protocol::Auto);
    let address = |host, port| ListenAddress { host, port, security, protocol };
    let all_interfaces = |port| vec![address(None, port)];
    let at = |host: &str, port| address(Some(host.to_owned()), port);
    assert_eq!(settings(&[]).udp, []);
    assert_eq!(settings(&["-U", "0"]).udp, []);
    let without_tcp_port = settings(&["-U", "5"]);
    assert_eq!(without_tcp_port.udp, all_interfaces(5));
    assert_eq!(
        without_tcp_port.listen,
        Listen::Tcp(all_interfaces(5)),
        "without -p the TCP port is that of -U"
    );
    let with_hosts = settings(&["-U", "5", "-p", "6", "-l", "a,b:7"]);
    assert_eq!(with_hosts.udp, [at("a", 5), at("b", 7)]);
    assert_eq!(with_hosts.listen, Listen::Tcp(vec![at("a", 6), at("b", 7)]));
    assert_eq!(settings(&["-U", "-1"]).udp, all_interfaces(0));
    assert_eq!(settings(&["-U", "5", "-p", "0"]).listen, Listen::Tcp(vec![]));
    let (unreachable, warnings) = serve(&["-p", "0"]);
    assert_eq!(unreachable.listen, Listen::Tcp(vec![]));
    assert!(warnings[0].contains("-p -1"), "the warnings are {warnings:?}");
    assert_eq!(settings(&["-U", "5", "-s", "socket"]).udp, []);
}

#[test]
fn ascii_authentication_rejects_udp_and_the_binary_protocol() {
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
    let Listen::Tcp(addresses) = &negotiating.listen else {
        panic!("without -s the server must listen on TCP")
    };
    assert_eq!(addresses[0].protocol, Protocol::Ascii);
    let settings = settings(&["-Y", "x", "-U", "0"]);
    assert_eq!(settings.auth_file, std::path::absolute("x").ok());
    let reported = stats_at_start(&settings);
    assert!(reported.contains(&("auth_enabled_ascii", "x".to_owned())));
    assert!(reported.contains(&("binding_protocol", "ascii".to_owned())));
}

#[test]
fn without_options_the_engine_has_its_own_defaults() {
    let engine = settings(&[]).engine;
    let own = EngineConfig::new(64 << 20);
    assert_eq!(engine.classes, own.classes);
    assert_eq!(engine.page_size_bytes, own.page_size_bytes);
    assert_eq!(engine.item_size_bytes_max, own.item_size_bytes_max);
    assert_eq!(engine.eviction_options.lru, own.eviction_options.lru);
    assert_eq!(engine.size_model, SizeModel::Exact);
}

#[test]
fn the_preset_memcached_sets_the_defaults_of_memcached() {
    let engine = settings(&["-o", "preset=memcached"]).engine;
    assert_eq!(engine.page_size_bytes, 1 << 20);
    assert_eq!(engine.classes, ClassTable::geometric(96, 1.25, 512 << 10));
    assert_eq!(engine.size_model, SizeModel::Memcached);
    assert!(engine.first_page_beyond_limit);
    assert_eq!(engine.mover, MoverKind::STOCK);
    // Other options override the preset, even if they precede it.
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
    assert_eq!(
        largest(&["-o", "slab_chunk_max=16384"]),
        16 << 10,
        "a value above 1024 is a number of bytes"
    );
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
fn a_page_size_above_16_mib_is_rejected() {
    let large = ["-m", "1024", "-o", "page_size=32m"];
    assert!(refusal(&large).contains("to 16777216 (16m)"), "the error is: {}", refusal(&large));
    let listed = ["-m", "1024", "-I", "64m", "-o", "slab_sizes=100-40000000"];
    assert!(
        refusal(&listed).contains("above the largest page"),
        "the error is: {}",
        refusal(&listed)
    );
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
fn page_policy_and_objective_select_the_policy_and_its_options() {
    let policy = |options: &str| settings(&["-o", options]).page_policy;
    assert_eq!(settings(&[]).page_policy.name(), "space_time");
    assert_eq!(settings(&[]).engine.eviction, EvictionKind::Density);
    assert_eq!(settings(&["-o", "profile=off"]).engine.eviction, EvictionKind::CostBands);
    assert_eq!(
        policy("profile=off").name(),
        "space_time",
        "the default with profile=off is the best policy that needs no profiles"
    );
    assert_eq!(policy("eviction=segmented").name(), "marginal");
    assert_eq!(policy("objective=request_time").name(), "marginal");
    assert_eq!(policy("objective=cost").name(), "space_time");
    assert_eq!(policy("eviction=density,page_policy=lama").name(), "lama");
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
    assert_eq!(policy("objective=miss_ratio").name(), "space_time");
    let without = policy("objective=miss_ratio,profile=off");
    assert_eq!(
        without.name(),
        "space_time",
        "objective=miss_ratio is valid with every policy, because without costs every policy minimizes misses"
    );
}

#[test]
fn the_settings_of_the_automover_result_from_its_policy_options_or_from_slab_automove() {
    let reported = |options: &str| {
        let settings = settings(&["-o", options]);
        (settings.tunables.automove.window_seconds, settings.tunables.automove.age_ratio)
    };
    assert_eq!(reported("page_policy=automove:window_len=30"), (30, 0.8));
    assert_eq!(reported("page_policy=automove,slab_automove_ratio=0.5"), (10, 0.5));
    assert_eq!(reported("slab_automove_window=20,slab_automove_ratio=0.5"), (20, 0.5));
}

#[test]
fn profile_memory_sets_the_number_of_keys_that_profiling_watches() {
    let keys_max = |args: &[&str]| settings(args).profiling.map(|it| it.profiler.keys_max);
    let default = keys_max(&[]).expect("profiling is on by default");
    assert!((10_000..20_000).contains(&default), "by default profiling watches {default} keys");
    let large = keys_max(&["-m", "1024"]).expect("profiling is on by default");
    assert!((100_000..200_000).contains(&large), "with -m 1024 profiling watches {large} keys");
    assert!(keys_max(&["-o", "profile_memory=8m"]).is_some_and(|keys| keys > default));
    assert_eq!(keys_max(&["-o", "profile=off"]), None);
    assert_eq!(keys_max(&["-o", "preset=memcached"]), None);
    assert!(keys_max(&["-o", "preset=memcached,profile=on"]).is_some());
    let rate = |options| {
        let profiling = settings(&["-o", options]).profiling.expect("profiling is on");
        (profiling.profiler.rate_max, !profiling.lowers_rate_if_full)
    };
    assert_eq!(rate("profile=full"), (1.0, true));
    assert!(!rate("profile=on").1 && rate("profile=on").0 < 1.0);
    for options in ["profile=off,profile_memory=8m", "profile_memory=8m,preset=memcached"] {
        let (_, warnings) = serve(&["-o", options]);
        assert!(
            warnings[0].contains("profile_memory=8388608 has no effect"),
            "the warnings are {warnings:?}"
        );
    }
    assert_eq!(serve(&["-o", "profile_memory=8m"]).1, Vec::<String>::new());
}

#[test]
fn with_a_unix_socket_the_server_does_not_listen_on_tcp() {
    let settings = settings(&["-s", "/tmp/x.sock", "-a", "0770", "-p", "0"]);
    assert_eq!(settings.listen, Listen::Unix { path: "/tmp/x.sock".into(), mode: 0o770 });
}

#[test]
fn tls_options_set_the_tls_settings() {
    assert_eq!(settings(&[]).tls, None);
    assert!(refusal(&["-Z"]).contains("ssl_chain_cert=FILE"));
    let tls = settings(&["-Z", "-o", "ssl_chain_cert=/c,ssl_key=/k"]).tls;
    let tls = tls.expect("with -Z there are TLS settings");
    assert_eq!(tls.chain_file.to_str(), Some("/c"));
    assert_eq!(tls.write_buffer_bytes, 16 << 10);
    assert_eq!((tls.version_min, tls.key_format), (TlsVersion::V1_2, KeyFormat::Pem));
    let options = "ssl_chain_cert=/c,ssl_verify_mode=2,ssl_ca_cert=/a,ssl_wbuf_size=64,\
                   ssl_min_version=3,ssl_session_cache,ssl_keyformat=2,ssl_ciphers=HIGH:!RC4";
    let (all, warnings) = serve(&["-Z", "-o", options, "-B", "ascii"]);
    assert_eq!(warnings, Vec::<String>::new());
    let Listen::Tcp(addresses) = &all.listen else {
        panic!("without -s the server must listen on TCP")
    };
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
        assert!(stats.contains(&(name, value.to_owned())), "{name} must be {value}: {stats:?}");
    }
}

#[test]
fn tls_options_without_full_support_cause_warnings_or_errors() {
    let warnings = |options: &str| serve(&["-Z", "-o", &format!("ssl_chain_cert=/c,{options}")]).1;
    assert!(warnings("ssl_min_version=1")[0].contains("is read as 2"));
    assert!(warnings("ssl_wbuf_size=5000")[0].contains("1024 is used"));
    assert!(warnings("ssl_kernel_tls")[0].contains("no effect"));
    assert!(warnings("ssl_verify_mode=2")[0].contains("ssl_ca_cert=FILE"));
    assert!(warnings("ssl_verify_mode=1")[0].contains("are rejected"));
    assert!(refusal(&["-o", "ssl_keyformat=ENGINE"]).contains("openssl pkey"));
    assert!(refusal(&["-o", "ssl_verify_mode=4"]).contains("from 0 to 3"));
    let (settings, warnings) = serve(&["-o", "ssl_chain_cert=/c"]);
    assert_eq!(settings.tls, None);
    assert!(warnings[0].contains("not encrypted"), "the warnings are {warnings:?}");
}

#[test]
fn stats_settings_has_the_names_and_formats_of_memcached() {
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
    assert_eq!(names.len(), count, "no two lines have the same name");
}

#[test]
fn with_sasl_the_protocol_is_binary() {
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
            "protocol and SASL with {args:?}"
        );
    }
    let (_, warnings) = serve(&["-S"]);
    assert!(
        warnings.iter().any(|warning| warning.contains("MEMCACHED_SASL_PWDB")),
        "the warnings are {warnings:?}"
    );
}

#[test]
fn classes_are_learned_by_the_given_method() {
    let method = |value: &str| {
        let settings = settings(&["-o", &format!("classes={value}")]);
        assert!(settings.tunables.set_learns_classes, "{value}");
        settings.classes_method
    };
    assert_eq!(settings(&[]).classes_method, Method::Exact);
    assert_eq!(method("learned"), Method::Exact);
    assert_eq!(method("learned:method=exact"), Method::Exact);
    assert_eq!(method("learned:method=hill-climb"), Method::HillClimb);
    let unknown = refusal(&["-o", "classes=learned:method=fast"]);
    assert!(unknown.contains("learned:method=hill-climb"), "the error is: {unknown}");
    let without_evictions = refusal(&["-M", "-o", "classes=learned:method=hill-climb"]);
    assert!(without_evictions.contains("leave out -M"), "the error is: {without_evictions}");
}
