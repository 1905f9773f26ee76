//! Tests of the command line: names and values of options, errors, warnings about names, and the texts of the help.

use super::{refusal, request, serve, settings};
use crate::config::option::ValueKind;
use crate::config::table::{FLAGS, MISSING, extended, extended_names};
use crate::config::{Listen, Request, reread};
use slabwise_policy::PagePolicy;

/// Returns a valid value of an option, or `None` if the option is valid without a value.
fn sample_value(takes: &ValueKind, default: &str) -> Option<String> {
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
        ValueKind::Checked("source[:method=M]", _) => Some("learned".to_owned()),
        ValueKind::Checked("host:port|path", _) => Some("127.0.0.1:9150".to_owned()),
        ValueKind::Checked("1|2", _) => Some("2".to_owned()),
        ValueKind::Checked("size-size-...", _) => Some("100-200".to_owned()),
        // The parser reads the file of `-o conf_file`.
        ValueKind::Text("file", _) => Some("/dev/null".to_owned()),
        ValueKind::Text(..) | ValueKind::Checked(..) => Some("x".to_owned()),
    }
}

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
    // Other tests check -o and -Z. Whether -L is accepted depends on the machine.
    for row in FLAGS
        .iter()
        .filter(|row| !["extended", "enable-largepages", "enable-ssl"].contains(&row.name))
    {
        let value = sample_value(&row.takes, row.default);
        let short = format!("-{}", row.short.expect("every flag has a letter"));
        let mut by_short = vec![short.clone()];
        by_short.extend(value.clone());
        let by_long = match &value {
            None => format!("--{}", row.name),
            Some(value) => format!("--{}={value}", row.name),
        };
        let by_short: Vec<&str> = by_short.iter().map(String::as_str).collect();
        for args in [by_short.as_slice(), &[by_long.as_str()]] {
            let outcome = request(args);
            outcome.unwrap_or_else(|reason| panic!("{args:?} must be accepted: {reason}"));
        }
    }
}

#[test]
fn accepts_a_valid_value_for_every_extended_option() {
    for row in extended() {
        let element = match sample_value(&row.takes, row.default) {
            None => row.name.to_owned(),
            Some(value) => format!("{}={value}", row.name),
        };
        let outcome = request(&["-o", &element]);
        outcome.unwrap_or_else(|reason| panic!("{element} must be accepted: {reason}"));
    }
    for name in MISSING.iter().flat_map(|feature| feature.names()) {
        match request(&["-o", &format!("{name}=1")]) {
            Ok(Request::Serve { warnings, .. }) => assert!(warnings[0].contains(name)),
            Ok(Request::Print(text)) => panic!("{name} must not print a text: {text}"),
            Err(reason) => assert!(reason.contains(name)),
        }
    }
}

#[test]
fn no_two_options_have_the_same_name() {
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
fn a_former_name_is_accepted_with_one_warning() {
    let args = ["-o", "page_policy=marginal:look_gets=7:look_gets=9", "-o", "cost=told,cost=told"];
    let (with_former_names, warnings) = serve(&args);
    assert_eq!(
        warnings,
        [
            "-o cost: told is now named client: use the new name; the former name is accepted until \
             version 1.0",
            "-o page_policy: look_gets is now named evaluate_gets: use the new name; the former name \
             is accepted until version 1.0",
        ]
    );
    assert_eq!(with_former_names.page_policy.value("evaluate_gets").as_deref(), Some("9"));
    let (_, warnings) = serve(&["-o", "page_policy=marginal:evaluate_gets=9,cost=client"]);
    assert_eq!(warnings, [""; 0]);
}

#[test]
fn the_error_for_an_invalid_value_names_the_allowed_values_or_the_remedy() {
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
        (vec!["-o", "eviction=density,profile=off"], "leave profile=off out, or choose another"),
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
fn flags_can_be_bundled_repeated_and_joined_with_their_values() {
    let settings = settings(&["-vvm100", "-t2", "--thread=3", "-c", " 7", "-Mv", "-p-1"]);
    assert_eq!(settings.tunables.verbosity, 3);
    assert_eq!(settings.engine.memory_limit_bytes, 100 << 20);
    assert_eq!(settings.threads, 3);
    assert_eq!(settings.connections_max, 7);
    assert!(!settings.engine.eviction_enabled);
    let Listen::Tcp(addresses) = settings.listen else {
        panic!("without -s the server must listen on TCP")
    };
    assert_eq!((addresses.len(), &addresses[0].host, addresses[0].port), (1, &None, 0));
}

/// Returns the text that the server prints with this argument.
fn printed(argument: &str) -> String {
    match request(&[argument]) {
        Ok(Request::Print(text)) => text,
        other => panic!("{argument} must print a text, but the result is {other:?}"),
    }
}

#[test]
fn the_short_help_has_at_most_48_lines_of_100_characters() {
    let help = printed("-h");
    assert_eq!(help, printed("--help"));
    assert!(help.lines().count() <= 48, "the help has {} lines", help.lines().count());
    for line in help.lines() {
        assert!(line.chars().count() <= 100, "a line has more than 100 characters: {line}");
    }
    let last = help.lines().last().expect("the help is not empty");
    assert!(
        last.contains("--help=policies") && last.contains("--help=all"),
        "the last line is: {last}"
    );
    for feature in ["enable-sasl", "enable-ssl", "unix-socket"] {
        assert!(help.contains(feature), "memcached's tests search the help for {feature}");
    }
}

#[test]
fn the_help_of_all_options_and_the_manual_page_contain_every_option() {
    let (help, page) = (printed("--help=all"), printed("--help=man"));
    for row in FLAGS.iter().chain(extended()) {
        assert!(help.contains(row.name), "the help must contain {}", row.name);
        let name = row.name.replace('-', "\\-");
        assert!(page.contains(&format!("{name}\\fR")), "the manual page must contain {name}");
    }
    let policies = printed("--help=policies");
    assert!(help.ends_with(&policies));
    for name in PagePolicy::NAMES {
        let (in_help, in_page) = (format!("\n  {name}\n"), format!("\n.SS {name}\n"));
        assert!(policies.contains(&in_help), "--help=policies must contain {name}");
        assert!(page.contains(&in_page), "the manual page must contain {name}");
    }
    for name in MISSING.iter().flat_map(|feature| feature.names()) {
        assert!(!help.contains(name), "the help must not contain {name}, which slabwise lacks");
    }
}

#[test]
fn an_unknown_help_topic_is_an_error() {
    let error = refusal(&["--help=polices"]);
    assert!(
        error.contains("'polices'") && error.contains("--help=policies, --help=all or --help=man"),
        "the error is: {error}"
    );
}

#[test]
fn version_and_license_are_printed() {
    assert!(printed("-V").contains("slabwise"));
    assert!(printed("-i").contains("Apache"));
}

#[test]
fn addresses_of_the_command_line_replace_those_of_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = folder.path().join("conf");
    std::fs::write(&path, "-l 127.0.0.1\n-l 127.0.0.2\n").expect("the folder is writable");
    let file = format!("conf_file={}", path.display());
    let hosts = |args: &[&str]| serve(args).0.interfaces.clone();
    assert_eq!(hosts(&["-o", &file]), ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(hosts(&["-l", "127.0.0.3", "-o", &file]), ["127.0.0.3"]);
}

#[test]
fn reading_a_file_again_finds_the_options_that_changed() {
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let path = folder.path().join("conf");
    let write = |text| std::fs::write(&path, text).expect("the folder is writable");
    write("-m 100\n-c 7 -o idle_timeout=5,maxconns_fast\n");
    let (started, warnings) = serve(&["-t", "3", "-o", &format!("conf_file={}", path.display())]);
    assert_eq!(warnings, [""; 0]);
    assert_eq!((started.connections_max, started.threads), (7, 3));
    assert_eq!(started.engine.memory_limit_bytes, 100 << 20);

    let changed = |text| {
        write(text);
        let reread = reread(&started.source).expect("the file is valid");
        (reread.memory_limit_mib, reread.options.differing(&started.source.options).join(" "))
    };
    let unchanged =
        "# the same options on other lines\n-c 7\n-m100\n-o maxconns_fast -o idle_timeout=5\n";
    assert_eq!(changed(unchanged), (100, String::new()));
    assert_eq!(changed("-m 50\n-c 7 -o idle_timeout=5,maxconns_fast\n"), (50, "-m".to_owned()));
    assert_eq!(
        changed("-o idle_timeout=6 -t 9"),
        (64, "-c -m -o idle_timeout -o maxconns_fast -t".to_owned())
    );
    write("-m\n");
    let error = reread(&started.source).expect_err("-m needs a value");
    assert!(error.starts_with(&format!("{}:1: ", path.display())), "{error}");
}
