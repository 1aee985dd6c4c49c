#!/bin/bash
# Checks the packages from /packages as their users meet them. Runs as root in a fresh Debian root
# that nobody else uses (enter.sh). Prints `ok: ` or `not ok: ` for each check, and what it said.
set -u
exec < /dev/null
cd /

failures=0
check() {
    local name=$1 said
    shift
    if said=$(set -e; "$@" 2>&1); then
        echo "ok: $name"
    else
        echo "not ok: $name"
        echo "${said//$'\n'/$'\n    '}" | sed '1s/^/    /'
        failures=$((failures + 1))
    fi
}

# A check runs behind `if`, where `set -e` does nothing: each step says what it wants.
fail() { echo "$*"; exit 1; }
run() { "$@" || fail "status $?: $*"; }
refused() { if "$@"; then fail "this worked: $*"; fi; }
has() { grep -qF -- "$2" <<< "$1" || fail "\`$2\` is not in: $1"; }

install() { run apt-get install --yes --quiet -o Dpkg::Options::=--force-confold "$@"; }

# Names of all files, but for those that apt, dpkg and caches keep, and those of these checks.
files() {
    find / -xdev \( -path /proc -o -path /dev -o -path /srv -o -path /home -o -path /root -o -path /packages -o -path /tmp \
        -o -path /usr/local -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \) -prune \
        -o -print | sort
    find /usr/local ! -type d | sort
    find /run ! -path '/run/mount*' ! -path '/run/systemd*' ! -path '/run/log*' | sort
}

at=/mnt/at
mkdir -p /srv/source $at
head -c 5000001 /dev/urandom > /srv/file
useradd --create-home tester
# What the beginning of a system makes is there before.
[ ! -d /run/systemd/system ] || systemctl --quiet start basic.target
files > /srv/before

as_tester() { setpriv --reuid=tester --regid=tester --init-groups env HOME=/home/tester "$@"; }

tools() {
    run dio --version
    run dio cp /srv/file /srv/copy
    run cmp /srv/file /srv/copy
    [ "$(dio sha256sum /srv/file)" = "$(sha256sum /srv/file)" ] || fail "another digest"
    run dio tar -cf /srv/file.tar -C /srv file
    tar -tf /srv/file.tar | grep -qx file || fail "not in the archive"
    has "$(dio probe /srv/file)" "direct"
    rm /srv/copy /srv/file.tar
}

manuals() {
    local page
    has "$(man dio-cp)" "DESCRIPTION"
    has "$(man 8 mount.fuse.dio)" "Mount a directory"
    has "$(man 8 umount.fuse.dio)" "umount"
    for page in $(dpkg -L dio | sed -n 's|.*/man1/\(.*\)\.1\.gz|\1|p'); do
        man --warnings --encoding=utf8 "$page" 2>&1 > /dev/null | grep . && fail "$page"
    done
    [ "$(dpkg -L dio | grep -c '/man1/')" -gt 40 ] || fail "few pages"
}

bash_completes() {
    local words
    words=$(bash -c '. /usr/share/bash-completion/bash_completion
        _completion_loader dio
        COMP_WORDS=(dio c) COMP_CWORD=1 COMP_LINE="dio c" COMP_POINT=5
        "$(complete -p dio | sed "s/.*-F \([^ ]*\).*/\1/")" dio c dio
        echo "${COMPREPLY[@]}"')
    has "$words" "cp"
    has "$words" "cksum"
}

zsh_completes() {
    has "$(zsh -fc 'autoload -Uz compinit; compinit -D -u; echo ${_comps[dio]}; autoload +X _dio' 2>&1)" \
        "_dio"
}

fish_completes() {
    has "$(as_tester fish -c 'complete -C "dio c"')" "cp"
    has "$(as_tester fish -c 'complete -C "dio cp --rec"')" "--receipt"
}

in_fstab() {
    echo "/srv/source $at fuse.dio cio,allow_other,noauto 0 0" > /etc/fstab
    run mount $at
    [ "$(findmnt --noheadings --output FSTYPE $at)" = fuse.dio ] || fail "no mount"
    echo words > $at/words
    [ "$(cat /srv/source/words)" = words ] || fail "not in the source"
    [ "$(as_tester cat $at/words)" = words ] || fail "others may not enter"
    run umount $at
    refused findmnt $at
}

unit() {
    local unit=/usr/lib/systemd/system/dio@.service said
    said=$(systemd-analyze verify "$unit" 2>&1) || fail "$said"
    [ -z "$said" ] || fail "$said"
    [ -f /etc/default/dio ] || fail "no /etc/default/dio"
    dpkg-query --show --showformat='${Conffiles}' dio | grep -q /etc/default/dio || fail "no conffile"
}

until_so() {
    for _ in $(seq 600); do "$@" && return; sleep 0.1; done
    fail "not within a minute: $*"
}
is_out() { ! mountpoint --quiet $at; }
is_inactive() { ! systemctl --quiet is-active dio@test; }

service() {
    local server
    printf 'SOURCE=/srv/source\nMOUNTPOINT=%s\nOPTIONS=cio,allow_other\n' $at > /etc/default/dio-test
    run systemctl enable --now dio@test
    [ "$(findmnt --noheadings --output FSTYPE $at)" = fuse.dio ] || fail "no mount"
    [ "$(as_tester cat $at/words)" = words ] || fail "the options are not those of the instance"
    # A server that was killed leaves nothing behind, and another one serves.
    run systemctl kill --signal=KILL dio@test
    until_so cat $at/words
    # What is busy is served until it is closed, although the service was stopped.
    exec 3> $at/busy
    run systemctl --no-block stop dio@test
    until_so is_out
    echo late >&3
    exec 3>&-
    until_so is_inactive
    [ "$(cat /srv/source/busy)" = late ] || fail "what was written late is lost"
    run systemctl start dio@test
    run systemctl stop dio@test
    run is_out
    refused systemctl start dio@none
    run systemctl reset-failed
}

service_upgraded() {
    local server
    install --allow-downgrades /packages/earlier/dio_*.deb
    run systemctl start dio@test
    server=$(systemctl show --value --property=MainPID dio@test)
    install /packages/dio_*.deb
    [ "$(systemctl show --value --property=MainPID dio@test)" = "$server" ] || fail "restarted"
    [ "$(systemctl show --value --property=NeedDaemonReload dio@test)" = no ] || fail "no reload"
    run cat $at/words
    run systemctl restart dio@test
    run cat $at/words
}

service_removed() {
    systemctl --quiet is-active dio@test && fail "the service is running"
    run is_out
    [ -L /etc/systemd/system/multi-user.target.wants/dio@test.service ] || fail "not enabled"
}

# Packages of the profile dev have the program of the tests, with all commands.
is_lean() { ! dio --help | grep -q '^Measuring'; }

no_bench() {
    local said
    said=$(dio bench random 2>&1) && fail "dio has the command"
    has "$said" "install the package dio-bench"
}

upgrade_in_use() {
    local server before
    run mount $at
    server=$(pgrep -x dio) || fail "no server"
    exec 3>> $at/held
    echo before >&3
    before=$(stat --format=%i /usr/bin/dio)
    echo 'OPTIONS=cached' >> /etc/default/dio
    install /packages/dio_*.deb
    [ "$(dpkg-query --show --showformat='${Version}' dio)" != 0.0.1 ] || fail "no upgrade"
    [ "$(stat --format=%i /usr/bin/dio)" != "$before" ] || fail "the program was not replaced"
    [ "$(pgrep -x dio)" = "$server" ] || fail "the server is another one"
    echo after >&3
    exec 3>&-
    [ "$(tr '\n' ' ' < /srv/source/held)" = "before after " ] || fail "$(cat /srv/source/held)"
    [ "$(cat $at/words)" = words ] || fail "the mount does not answer"
    run dio stat $at
    run mount -o remount,cached $at
    grep -qx OPTIONS=cached /etc/default/dio || fail "changed settings are gone"
    run umount $at
}

ordinary_user() {
    run as_tester bash -euc '
        cd; mkdir source at bin
        dio cp /srv/file source/file
        dio mount source at
        [ "$(findmnt --noheadings --output FSTYPE ~/at)" = fuse.dio ]
        cmp /srv/file at/file
        dio umount at
        dio run --dir source -- cmp /srv/file source/file
        dio self links bin sha256sum cat
        [ "$(readlink bin/sha256sum)" = /usr/bin/dio ]
        [ "$(PATH=~/bin:$PATH sha256sum /srv/file)" = "$(/usr/bin/sha256sum /srv/file)" ]
        dio self links --remove bin
        rm -r source at bin'
}

with_bench() {
    install /packages/dio-bench_*.deb
    has "$(dio bench --help)" "random"
    has "$(dio wal bench --help)" "Usage"
    has "$(as_tester dio report --help)" "Usage"
    has "$(man dio-bench)" "NAME"
    run apt-get purge --yes --quiet dio-bench
    if is_lean; then no_bench; fi
    [ ! -e /usr/lib/dio ] || fail "$(find /usr/lib/dio)"
}

remove_in_use() {
    local said
    run mount $at
    exec 3>> $at/held
    said=$(apt-get remove --yes --quiet dio 2>&1) || fail "$said"
    has "$said" "dio: $at stays mounted"
    [ ! -e /usr/bin/dio ] || fail "the program is there"
    [ ! -e /usr/sbin/mount.fuse.dio ] || fail "the helper is there"
    [ -f /etc/default/dio ] || fail "a removal took the settings"
    echo removed >&3
    exec 3>&-
    has "$(cat $at/held)" "removed"
    run umount $at
    for _ in $(seq 100); do pgrep -x dio > /dev/null || break; sleep 0.1; done
    refused pgrep -x dio
}

purge() {
    run apt-get purge --yes --quiet dio
    refused dpkg-query --status dio
}

nothing_is_left() {
    rm -rf /srv/source/* /etc/default/dio-test
    files > /srv/after
    run diff /srv/before /srv/after
}

library() {
    local vfs said
    install /packages/libdio1_*.deb /packages/libdio-dev_*.deb
    has "$(ldconfig -p)" "libdio.so.1"
    vfs=$(dpkg -L libdio1 | grep '/dio_vfs\.so$')
    refused grep -q 'not found' <<< "$(ldd "$vfs")"
    grep -q '^Libs:.* -ldio' /usr/lib/*/pkgconfig/dio.pc || fail "no dio.pc"
    grep -q dio_open /usr/include/dio.h || fail "no header"
    [ -e /usr/lib/*/libdio.so ] || fail "libdio.so leads nowhere"
    said=$(as_tester sqlite3 :memory: ".load ${vfs%.so}" ".open file:/home/tester/data.db?vfs=dio" \
        "create table t(a); insert into t values(6 * 7); select 'got ' || a from t; pragma integrity_check;") || fail "$said"
    has "$said" "got 42"
    has "$said" "ok"
    [ "$(as_tester sqlite3 /home/tester/data.db "select a from t")" = 42 ] || fail "the usual VFS reads something else"
    run apt-get purge --yes --quiet libdio-dev libdio1
    refused grep -q libdio <<< "$(ldconfig -p)"
}

tarball() {
    local directory
    mkdir /srv/tar
    run tar -C /srv/tar -xJf /packages/dio-*-linux.tar.xz
    directory=$(echo /srv/tar/dio-*)
    run "$directory/install.sh"
    run /usr/local/bin/dio cp /srv/file /srv/copy
    has "$(/usr/local/bin/dio bench --help)" "random"
    has "$(man dio-bench)" "NAME"
    grep -q 'ExecStart=/usr/local/bin/dio ' /usr/local/lib/systemd/system/dio@.service || fail "the unit"
    [ -L /usr/local/sbin/mount.fuse.dio ] || fail "no helper"
    run /usr/local/sbin/mount.fuse.dio /srv/source $at
    run umount $at
    echo 'OPTIONS=cached' >> /etc/default/dio
    run "$directory/install.sh"
    grep -qx OPTIONS=cached /etc/default/dio || fail "changed settings are gone"
    run "$directory/install.sh" --uninstall
    [ -f /etc/default/dio ] || fail "changed settings were removed"
    [ ! -e /usr/local/share/doc/dio ] && [ ! -e /usr/local/lib/dio ] || fail "directories of dio's"
    rm -r /etc/default/dio /srv/tar /srv/copy
}

check "the earlier package is installed" install /packages/earlier/dio_*.deb
check "the tools" tools
check "manual pages" manuals
check "completions of bash" bash_completes
check "completions of zsh" zsh_completes
check "completions of fish" fish_completes
check "a line in fstab" in_fstab
check "the unit is right" unit
if [ -d /run/systemd/system ]; then check "the service" service; fi
if is_lean; then check "without dio-bench, its commands name it" no_bench; fi
check "an upgrade with a mount in use" upgrade_in_use
check "an ordinary user" ordinary_user
if [ -d /run/systemd/system ]; then
    check "an upgrade with a service running" service_upgraded
    check "a removal with a service running" run apt-get remove --yes --quiet dio
    check "the service was stopped" service_removed
    check "another installation" install /packages/dio_*.deb
else
    echo "skipped: services: no systemd of its own could be started here"
fi
check "dio-bench" with_bench
check "a removal with a mount in use" remove_in_use
check "a purge" purge
check "nothing is left of the packages" nothing_is_left
if [ -e /packages/libdio1_*.deb ]; then
    check "the C library and its VFS" library
    check "nothing is left of the library" nothing_is_left
fi
check "the tarball" tarball
check "nothing is left of the tarball" nothing_is_left
[ $failures = 0 ]
