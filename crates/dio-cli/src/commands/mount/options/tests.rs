use std::path::Path;

use super::*;

fn given(text: &str) -> ParsedOptions {
    read(&[text.to_owned()], Origin::User).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn settings(text: &str) -> Settings {
    given(text).options.settings
}

#[track_caller]
fn refused(text: &str, words: &[&str]) {
    let error = read(&[text.to_owned()], Origin::User).expect_err(text).to_string();
    for word in words {
        assert!(error.contains(word), "{text}: `{word}` is not in `{error}`");
    }
}

#[test]
fn modes_have_the_words_of_jfs2_and_plain_ones() {
    for (text, mode) in [
        ("", Mode::Direct),
        ("dio", Mode::Direct),
        ("direct", Mode::Direct),
        ("cio", Mode::Concurrent),
        ("concurrent", Mode::Concurrent),
        ("cached", Mode::Cached),
        ("auto", Mode::Auto),
        ("mode=auto", Mode::Auto),
        ("mode=cio", Mode::Concurrent),
        ("cached,dio", Mode::Direct),
        ("dio,cio", Mode::Concurrent),
        ("cio,dio", Mode::Concurrent),
        ("cio,cached", Mode::Cached),
    ] {
        assert_eq!(settings(text).rules.default, mode, "{text}");
    }
    refused("mode=fast", &["'fast'", "'mode'", "direct, concurrent, cached, auto"]);
    refused("mode", &["'mode'", "mode=concurrent"]);
}

#[test]
fn the_first_pattern_that_matches_decides() {
    let rules = settings("cio=*.ibd:*.dbf,dio=redo/*,cached=*.ctl,auto,dio=**/undo/*").rules;
    for (path, mode) in [
        ("a.ibd", Mode::Concurrent),
        ("deep/below/a.dbf", Mode::Concurrent),
        ("redo/log1", Mode::Direct),
        ("redo/a.ibd", Mode::Concurrent),
        ("redo/x.ctl", Mode::Direct),
        ("redo/deep/x.ctl", Mode::Cached),
        ("other/redo/log1", Mode::Auto),
        ("other/undo/log1", Mode::Direct),
        ("undo/log1", Mode::Direct),
        ("a.ibd2", Mode::Auto),
        ("ibd", Mode::Auto),
    ] {
        assert_eq!(rules.mode_of(Path::new(path)), mode, "{path}");
    }
}

#[test]
fn commas_within_braces_and_quotes_do_not_separate() {
    let rules = settings("cio=*.{ibd,dbf}:/top,cached").rules;
    assert_eq!(rules.mode_of(Path::new("x/a.dbf")), Mode::Concurrent);
    assert_eq!(rules.mode_of(Path::new("top")), Mode::Concurrent);
    assert_eq!(rules.mode_of(Path::new("a.x")), Mode::Cached);
    assert_eq!(
        given("context=\"u:r:s0:c1,c2\",fsname=\"a,b\"").options.flags,
        ["context=\"u:r:s0:c1,c2\""]
    );
    assert_eq!(given("fsname=\"a,b\"").for_source(Path::new("/c")).source_name, "a,b");
    assert_eq!(given("ro").for_source(Path::new("/c")).source_name, "/c");
    refused("cio=[a", &["'[a'", "'cio'"]);
    refused("cio=", &["'cio'", "cio='*.ibd'"]);
}

#[test]
fn sizes_times_and_numbers() {
    let all = given(
        "readahead_min=64K,readahead_max=2MiB,write_behind=0,limit=1G,direct_from=128k,threads=3,remember=0.5,lock=file,\
         allow_other,default_permissions,ro",
    )
    .options;
    assert_eq!(all.settings.read_ahead, (64 << 10, 2 << 20));
    assert_eq!(
        (all.settings.write_behind, all.settings.limit, all.settings.direct_from),
        (0, 1 << 30, 128 << 10)
    );
    assert_eq!(
        (all.threads, all.remember, all.lock),
        (3, Duration::from_millis(500), LockPolicy::WholeFile)
    );
    assert!(all.allow_other && all.default_permissions && all.read_only);
    assert_eq!(given("attr_timeout=2").options.remember, Duration::from_secs(2));
    refused("write_behind=many", &["'write_behind'", "'many'", "number"]);
    refused("limit=1X", &["'limit'", "'1X'", "suffix"]);
    refused("limit", &["'limit'", "limit=8M"]);
    refused("threads=0", &["'threads'", "'0'", "1 to 1024"]);
    refused("remember=-1", &["'remember'", "'-1'", "seconds"]);
    refused("lock=inode", &["'lock'", "'inode'", "range, file"]);
    assert_eq!(
        given("stats_file=/a,stats_socket=/b").exports.socket.as_deref(),
        Some(Path::new("/b"))
    );
    refused("stats_file=a", &["'stats_file'", "'a'", "begins with /"]);
    assert_eq!(all.effective_rings(), Rings::Never, "without a word, lock=file takes the device");
    assert_eq!(given("cio").options.effective_rings(), Rings::Preferred);
    assert_eq!(given("no_io_uring,lock=file,io_uring").options.effective_rings(), Rings::Required);
    assert_eq!(given("io_uring,no_io_uring").options.effective_rings(), Rings::Never);
    let polling = |text| given(text).options.idle_polling;
    assert_eq!(polling("cio"), IdlePolling::Preferred);
    assert_eq!(polling("no_idle_poll,idle_poll"), IdlePolling::Required);
    assert_eq!(polling("idle_poll,no_idle_poll"), IdlePolling::Never);
    refused("io_uring=1", &["'io_uring'", "takes no value"]);
    refused("ro=yes", &["'ro'", "takes no value"]);
}

#[test]
fn the_range_of_read_ahead_stays_a_range() {
    let default = defaults().settings.read_ahead;
    assert_eq!(settings("readahead_max=64K").read_ahead, (64 << 10, 64 << 10));
    assert_eq!(settings("readahead_max=0").read_ahead, (0, 0));
    assert_eq!(settings("readahead_min=64M").read_ahead, (64 << 20, 64 << 20));
    assert_eq!(settings("readahead_min=4K").read_ahead, (4 << 10, default.1));
    refused(
        "readahead_max=64K,readahead_min=1M",
        &["readahead_min=1048576", "readahead_max=65536"],
    );
}

#[test]
fn options_of_mount_and_fstab_are_handed_on_or_passed_over() {
    let all = given(
        "defaults,noauto,user,user=joe,users,_netdev,nofail,x-systemd.automount,X-mount.mkdir,comment=x,nosuid,nodev,noexec,\
         noatime,relatime,rw,sync,user_id=0,group_id=0,max_read=131072,subtype=dio,,",
    )
    .options;
    assert_eq!(all.flags, ["nosuid", "nodev", "noexec", "noatime", "relatime", "sync"]);
    assert!(!all.read_only);
    assert!(given("ro,rw,ro").options.read_only);
    assert!(given("remount,cio").remount);
}

#[test]
fn who_speaks_decides_what_auto_means() {
    let by_mount = |text: &str, sloppy| read(&[text.to_owned()], Origin::Mount { sloppy });
    assert_eq!(
        by_mount("rw,auto,cio", false).unwrap().options.settings.rules.default,
        Mode::Concurrent
    );
    assert_eq!(by_mount("mode=auto", false).unwrap().options.settings.rules.default, Mode::Auto);
    assert!(by_mount("quick", false).is_err());
    assert!(by_mount("quick", true).is_ok());
    assert!(by_mount("threads=x", true).is_err());
}

#[test]
fn an_unknown_option_is_named_with_what_is_possible() {
    refused("cio,cioo", &["unknown option 'cioo'", "cio=GLOB", "readahead_max=", "allow_other"]);
    refused("nosuid=1", &["unknown option 'nosuid=1'"]);
}

#[test]
fn later_lists_count_like_later_options() {
    let texts = ["cached,threads=2".to_owned(), "threads=4".to_owned()];
    let given = read(&texts, Origin::User).unwrap();
    assert_eq!((given.options.threads, given.options.settings.rules.default), (4, Mode::Cached));
}

#[test]
fn a_change_leaves_alone_what_it_does_not_name() {
    let before = settings("cio=*.ibd,cached=*.ctl,auto,write_behind=1M,limit=2M");
    let mode_of = |settings: &Settings, path: &str| settings.rules.mode_of(Path::new(path));

    let after = parse_change("remount,write_behind=4M", &before).unwrap();
    assert_eq!(
        (after.write_behind, after.limit, after.read_ahead),
        (4 << 20, 2 << 20, before.read_ahead)
    );
    assert_eq!(mode_of(&after, "a.ibd"), Mode::Concurrent);

    let after = parse_change("cio", &before).unwrap();
    assert_eq!((mode_of(&after, "a"), mode_of(&after, "a.ctl")), (Mode::Concurrent, Mode::Cached));

    let after = parse_change("dio=*.log", &before).unwrap();
    assert_eq!(mode_of(&after, "a.log"), Mode::Direct);
    assert_eq!((mode_of(&after, "a.ibd"), mode_of(&after, "a.ctl")), (Mode::Auto, Mode::Auto));

    let after = parse_change("norules", &before).unwrap();
    assert_eq!(mode_of(&after, "a.ibd"), Mode::Auto);
}

#[test]
fn a_change_of_what_is_fixed_is_refused() {
    let now = defaults().settings;
    for option in [
        "threads=3",
        "ro",
        "allow_other",
        "lock=file",
        "remember=3",
        "nosuid",
        "fsname=x",
        "io_uring",
        "no_idle_poll",
    ] {
        let error = parse_change(option, &now).expect_err(option).to_string();
        assert!(error.contains(option) && error.contains("unmount and mount again"), "{error}");
    }
    assert!(matches!(parse_change("cioo", &now), Err(OptionError::Unknown { .. })));
    assert!(matches!(parse_change("limit=x", &now), Err(OptionError::Size { .. })));
    parse_change("rw,remount,user_id=0,group_id=0,x-anything", &now).unwrap();
}

#[test]
fn a_change_is_divided_between_kernel_and_server() {
    let texts = [
        "ro,nosuid,context=\"a,b\",user_id=0,allow_other,remount".to_owned(),
        "cio=*.{a,b},limit=1M".to_owned(),
    ];
    let (flags, text) = divide(&texts, Origin::Mount { sloppy: false });
    assert_eq!(
        (flags, text.as_str()),
        (vec!["ro".to_owned(), "nosuid".to_owned()], "cio=*.{a,b},limit=1M")
    );
    let (flags, text) = divide(&texts, Origin::User);
    assert_eq!(flags, ["ro", "nosuid"]);
    assert_eq!(text, "context=\"a,b\",allow_other,cio=*.{a,b},limit=1M");
}

#[test]
fn settings_are_told_in_the_words_that_are_read() {
    for text in [
        "mode=direct,norules,readahead_min=256K,readahead_max=8M,write_behind=16M,direct_from=256K,limit=256M,gather,nonative,\
         rate=0,latency=0us",
        "mode=auto,concurrent=*.{ibd,dbf}:a/**/b,cached=*.ctl,concurrent=x,readahead_min=0,readahead_max=0,\
         write_behind=1000,direct_from=3K,limit=1G,nogather,native,rate=3M,latency=500us",
    ] {
        assert_eq!(text_of(&settings(text)), text);
        let other = settings("cached,dio=y,limit=7,readahead_max=64M");
        assert_eq!(text_of(&parse_change(text, &other).unwrap()), text);
    }
}

/// Found by fuzzing: such a pattern changed the options behind it when the text of the settings was
/// parsed again.
#[test]
fn patterns_with_special_characters_are_told_so_that_they_are_read_again() {
    for (text, told) in [
        ("cio=\"a,b\"", "concurrent=\"a,b\""),
        ("cio=\"a \"", "concurrent=\"a \""),
        ("cio=[{]", "concurrent=\"[{]\""),
        ("cio=/", "concurrent=/"),
        ("cio=a{b,c}", "concurrent=a{b,c}"),
    ] {
        let all = text_of(&settings(text));
        assert!(all.starts_with(&format!("mode=direct,{told},readahead_min=")), "{all}");
        assert_eq!(text_of(&settings(&all)), all);
    }
    refused("cio=a\"b,limit=1M", &["'a\"b,limit=1M'", "quotation mark"]);
}

#[test]
fn a_rate_and_a_latency_limit_what_programs_do() {
    let throttle = |text| settings(text).throttle;
    assert!(!throttle("").is_on());
    assert_eq!(throttle("rate=100MB/s").rate, Some(100_000_000));
    assert_eq!(throttle("rate=256K").rate, Some(256 << 10));
    assert_eq!(throttle("latency=5ms").latency, Some(Duration::from_millis(5)));
    assert!(!throttle("rate=1M,latency=1,rate=0,latency=0").is_on());
    refused("rate", &["'rate'", "rate=100M"]);
    refused("rate=1K", &["'rate'", "'1K'", "256K or more"]);
    refused("rate=fast", &["'rate'", "'fast'", "number"]);
    refused("latency=soon", &["'latency'", "'soon'", "5ms"]);
    let slow = settings("rate=1M,latency=250us");
    assert_eq!(
        parse_change(&text_of(&slow), &defaults().settings).unwrap().throttle,
        slow.throttle
    );
    assert!(!parse_change("rate=0,latency=0", &slow).unwrap().throttle.is_on());
}

#[test]
fn a_profile_is_a_name_for_options() {
    let text = |options| text_of(&settings(options));
    assert_eq!(text("profile=backup"), text("direct,limit=64M"));
    assert_eq!(text("cio,profile=backup"), text("profile=backup"), "it names the mode");
    assert_eq!(text("profile=backup,auto,limit=1G"), text("auto,limit=1G"), "the last counts");
    assert_eq!(text("cached=*.ctl,profile=backup"), text("cached=*.ctl,direct,limit=64M"));
    refused("profile=restore", &["'profile'", "'restore'", "backup"]);
    refused("profile", &["'profile'", "profile=backup"]);
}
