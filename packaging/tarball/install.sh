#!/bin/sh
# Installs dio below a prefix, or removes it: see share/doc/dio/docs/install.md.
set -eu

usage() {
    cat <<'EOF'
Usage: ./install.sh [--prefix=DIR] [--destdir=DIR] [--uninstall]

  --prefix=DIR    where dio will be found [/usr/local]
  --destdir=DIR   put everything below DIR instead of /, as packagers do
  --uninstall     remove what was installed with the same options; /etc/default/dio
                  stays if it was changed

mount(8) looks for its helpers in /sbin only: `dio install-mount-helper`, once, as
root, makes mount -t fuse.dio and lines in fstab work for a prefix other than /usr.
EOF
}

prefix=/usr/local destdir='' uninstall=no
for option; do
    case $option in
    --prefix=/*) prefix=${option#*=} ;;
    --destdir=/*) destdir=${option#*=} ;;
    --uninstall) uninstall=yes ;;
    --help | -h) usage; exit ;;
    *) usage >&2; exit 2 ;;
    esac
done
prefix=${prefix%/}
cd "$(dirname "$0")"

# Where a file of this tree goes: what systemd and shells read has a directory of its own below
# /usr/local, and configuration is never below the prefix.
place() {
    case $1 in
    etc/*) echo "/$1" ;;
    share/zsh/vendor-completions/*) echo "$prefix/share/zsh/site-functions/${1##*/}" ;;
    *) echo "$prefix/$1" ;;
    esac
}

# The unit names the program by its path.
contents() {
    case $1 in
    *.service) sed "s|/usr/bin/dio|$prefix/bin/dio|g" "$1" ;;
    *) cat "$1" ;;
    esac
}

# Removes directories that are empty, upwards from $1: those of a prefix that nobody else uses, and
# elsewhere those that only dio has.
prune() {
    directory=$1
    while [ "$directory" != "$destdir" ] && [ "$directory" != "$destdir/etc/default" ]; do
        case $prefix:$directory in
        /usr:*/doc/dio* | /usr:*/lib/dio | /usr/local:*/doc/dio* | /usr/local:*/lib/dio) ;;
        /usr:* | /usr/local:*) return 0 ;;
        esac
        rmdir "$directory" 2> /dev/null || return 0
        [ "$directory" != "$destdir$prefix" ] || return 0
        directory=${directory%/*}
    done
}

find . \( -type f -o -type l \) ! -path ./install.sh | sed 's|^\./||' | sort -r |
    while read -r file; do
        to=$destdir$(place "$file")
        if [ $uninstall = yes ]; then
            case $file in
            etc/*) [ -e "$to" ] && cmp -s "$file" "$to" && rm -f "$to" || : ;;
            *) rm -f "$to" ;;
            esac
            prune "${to%/*}"
            continue
        fi
        mkdir -p "${to%/*}"
        if [ -L "$file" ]; then
            ln -sf "$(readlink "$file")" "$to"
        elif [ "${file#etc/}" != "$file" ] && [ -e "$to" ]; then
            cmp -s "$file" "$to" || echo "install.sh: $to is kept; the new one is $PWD/$file"
        else
            # By a new file under the name: a server that runs keeps the program it was started from.
            contents "$file" > "$to.new"
            if [ -x "$file" ]; then chmod 755 "$to.new"; else chmod 644 "$to.new"; fi
            mv -f "$to.new" "$to"
        fi
    done

if [ $uninstall = yes ] && [ -z "$destdir" ] && [ -d /run/dio ]; then
    # The directory of the control sockets, unless a server still has one there.
    rmdir --ignore-fail-on-non-empty /run/dio
fi
