//! Data that are typical for compression: text, programs, a database. They are made once from the
//! files of this machine, and kept between runs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::tool::{must, output, tool};
use dio_common::size::exact as size_text;

/// A kind of data.
#[derive(Clone, Copy)]
pub(crate) struct DataKind {
    /// The name in tables and in the file's name.
    pub(crate) name: &'static str,
    /// A shell script that writes $SIZE bytes or a little more to $FILE.
    script: &'static str,
}

/// Text is sources, headers and documentation; libraries are shared libraries; the database has
/// tables and indices of SQLite.
pub(crate) const KINDS: [DataKind; 3] = [
    DataKind { name: "text", script: TEXT },
    DataKind { name: "libraries", script: LIBRARIES },
    DataKind { name: "database", script: DATABASE },
];

/// If there is not enough text, it starts over from the beginning, which is farther back than any
/// compressor's window.
const TEXT: &str = r#"
list() {
    find /usr/share/doc /usr/include /usr/share/perl /usr/lib/python3 "${CARGO_HOME:-$HOME/.cargo}/registry/src" -xdev -type f \
        \( -name '*.rs' -o -name '*.c' -o -name '*.h' -o -name '*.py' -o -name '*.pm' -o -name '*.txt' -o -name '*.md' \
        -o -name '*.html' \) -size +0 "$@" 2> /dev/null || :
}
test -n "$(list -print -quit)"
while :; do list -print0 | sort -z | xargs -0 cat 2> /dev/null || break; done |
    head -c "$SIZE" | dd of="$FILE" bs=1M iflag=fullblock oflag=direct conv=fsync status=none
"#;

const LIBRARIES: &str = r#"
list() {
    find /usr/lib /usr/local/lib -xdev -type f -name '*.so*' -size +0 "$@" 2> /dev/null || :
}
test -n "$(list -print -quit)"
while :; do list -print0 | sort -z | xargs -0 cat 2> /dev/null || break; done |
    head -c "$SIZE" | dd of="$FILE" bs=1M iflag=fullblock oflag=direct conv=fsync status=none
"#;

/// Customers and their orders, with names and notes made of words, and two indices besides the
/// keys.
const DATABASE: &str = r#"
exec python3 - "$FILE" "$SIZE" << 'END'
import os, random, sqlite3, sys
path, size = sys.argv[1], int(sys.argv[2])
random.seed(1)
letters = 'etaoinshrdlucmfwypvbgkqjxz'
word = lambda: ''.join(letters[min(25, int(random.expovariate(0.18)))] for _ in range(random.randint(2, 10)))
words = [word() for _ in range(20000)]
notes = [' '.join(random.choices(words, k=random.randrange(9))) for _ in range(300000)]
base = sqlite3.connect(path)
base.execute('pragma journal_mode = off')
base.execute('pragma synchronous = off')
base.execute('create table customer (id integer primary key, name text, city text, balance real, since integer)')
base.execute('create table orders (id integer primary key, customer integer, item text, quantity integer, price real, note text, at integer)')
base.execute('create index by_customer on orders (customer)')
base.execute('create index by_time on orders (at)')
base.executemany('insert into customer values (?, ?, ?, ?, ?)', (
    (n, ' '.join(random.choices(words, k=2)), words[random.randrange(500)], round(random.gauss(1000, 800), 2), 1500000000 + n * 37)
    for n in range(200000)))
start = 0
while os.path.getsize(path) < size:
    base.executemany('insert into orders values (?, ?, ?, ?, ?, ?, ?)', (
        (n, random.randrange(200000), words[random.randrange(20000)], random.randrange(1, 20), round(random.expovariate(0.02), 2),
         notes[random.randrange(300000)], 1600000000 + n * 11 + random.randrange(600))
        for n in range(start, start + 100000)))
    base.commit()
    start += 100000
base.close()
END
"#;

/// The file of this kind with `bytes` bytes, below `dir`. A database ends where its last rows end.
pub(crate) fn file(dir: &Path, kind: DataKind, bytes: u64) -> Result<PathBuf> {
    let path = dir.join(format!("{}-{}", kind.name, size_text(bytes)));
    if path.exists() {
        return Ok(path);
    }
    must("python3")?;
    eprintln!("benchsuite: making {} of {}", size_text(bytes), kind.name);
    // Only complete files get the final name.
    let part = dir.join("corpus.part");
    crate::data::remove(&part)?;
    let mut shell = tool("sh");
    shell.args(["-e", "-c", kind.script]).env("FILE", &part).env("SIZE", bytes.to_string());
    output(&mut shell)?;
    let made = fs::metadata(&part)?.len();
    if made < bytes {
        return Err(
            format!("there is only {} of {} on this machine", size_text(made), kind.name).into()
        );
    }
    fs::rename(part, &path)?;
    Ok(path)
}
