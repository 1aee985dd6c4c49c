//! A database under load while another process runs: point queries at a fixed rate, by the
//! programs that come with the database. It speaks as the reader of the hot set does.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::reader::measured;
use crate::Result;
use crate::tool::{output, tool};
use dio_bench::data::Random;
use dio_bench::histogram::Histogram;

/// Rows of the table, of a thousand bytes.
const ROWS: u64 = 1_000_000;

/// Clients, and how often each asks.
const CLIENTS: u64 = 4;
const EVERY: Duration = Duration::from_millis(2);

/// The load, in words.
pub(crate) fn load() -> String {
    let rate = Duration::from_secs(1).as_millis() / EVERY.as_millis();
    format!("{ROWS} rows of 1000 bytes, {CLIENTS} clients, {rate} queries a second each")
}

/// A database that others may disturb.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Database {
    /// Its table lies in the page cache.
    Postgresql,
    /// Its table lies in memory of its own, which is read past the page cache.
    Mariadb,
}

impl Database {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Database::Postgresql => "postgresql",
            Database::Mariadb => "mariadb",
        }
    }

    /// The directory of its data.
    pub(crate) fn data(self, dir: &Path) -> PathBuf {
        dir.join(format!("beside-{}", self.name()))
    }

    fn make(self) -> &'static str {
        match self {
            Database::Postgresql => {
                "mkdir $D && chown postgres $D && as_user $B/initdb --auth=trust \
                 --username=postgres --no-sync -D $D >&2"
            }
            Database::Mariadb => {
                "mariadb-install-db --no-defaults --user=root --datadir=$D \
                 --auth-root-authentication-method=normal >&2"
            }
        }
    }

    fn serve(self) -> &'static str {
        match self {
            Database::Postgresql => {
                "exec setpriv --reuid=postgres --regid=postgres --clear-groups $B/postgres -D $D \
                 -k $D -c listen_addresses= -c shared_buffers=64MB -c autovacuum=off \
                 -c fsync=on >&2"
            }
            Database::Mariadb => {
                "exec mariadbd --no-defaults --user=root --datadir=$D --socket=$D/socket \
                 --pid-file=$D/pid --skip-networking --innodb-buffer-pool-size=1300M \
                 --innodb-flush-method=O_DIRECT >&2"
            }
        }
    }

    /// The signal by which a server ends although clients are connected.
    fn fast_shutdown(self) -> Signal {
        if self == Database::Postgresql { Signal::INT } else { Signal::TERM }
    }

    fn ask(self) -> &'static str {
        match self {
            Database::Postgresql => "exec psql -X -q -A -t -h $D -U postgres postgres",
            Database::Mariadb => {
                "exec mariadb --no-defaults -N -B --unbuffered -S $D/socket -u root test"
            }
        }
    }

    /// Reads all of the table, and the index by which it is asked.
    fn warm(self) -> &'static str {
        match self {
            Database::Postgresql => {
                "set enable_seqscan = off; set enable_bitmapscan = off; \
                 select count(v) from t where id > 0;\n"
            }
            Database::Mariadb => "select count(v) from t where id > 0;\n",
        }
    }

    fn fill(self) -> String {
        let (words, from) = match self {
            Database::Postgresql => ("repeat(md5(n::text), 31)", "generate_series(1, ROWS) n"),
            Database::Mariadb => ("repeat(md5(seq), 31)", "seq_1_to_ROWS"),
        };
        let number = if self == Database::Postgresql { "n" } else { "seq" };
        let from = from.replace("ROWS", &ROWS.to_string());
        format!(
            "create table t(id int primary key, v varchar(1000)); \
             insert into t select {number}, {words} from {from};"
        )
    }

    /// A script of the shell, in which `$D` is the directory of the data.
    fn shell(self, data: &Path, script: &str) -> Command {
        let mut shell = tool("sh");
        let all = format!(
            "B=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1); as_user() {{ setpriv \
             --reuid=postgres --regid=postgres --clear-groups \"$@\"; }}; {script}"
        );
        shell.arg("-c").arg(all).env("D", data);
        shell
    }
}

/// A server that ends when this is dropped.
struct Server {
    process: Child,
    database: Database,
}

impl Server {
    fn start(database: Database, data: &Path) -> Result<Server> {
        let mut shell = database.shell(data, database.serve());
        let process = shell.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let server = Server { process, database };
        let began = Instant::now();
        while output(
            database
                .shell(data, &format!("echo 'select 1;' | {}", database.ask()))
                .stderr(Stdio::null()),
        )
        .is_err()
        {
            if began.elapsed() > Duration::from_secs(60) {
                return Err(format!("{} does not answer", database.name()).into());
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(server) = Pid::from_raw(self.process.id().cast_signed()) {
            let _ = kill_process(server, self.database.fast_shutdown());
        }
        let _ = self.process.wait();
    }
}

/// A program that sends one query after another.
struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn start(database: Database, data: &Path) -> Result<Client> {
        let mut shell = database.shell(data, database.ask());
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("a client without input")?;
        let output = BufReader::new(child.stdout.take().ok_or("a client without output")?);
        Ok(Client { child, input, output })
    }

    fn ask(&mut self, query: &str) -> Result<()> {
        self.input.write_all(query.as_bytes())?;
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err("the database has gone".into()),
            _ => Ok(()),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes the data of a database, once.
pub(crate) fn prepare(database: Database, dir: &Path) -> Result<()> {
    let data = database.data(dir);
    if data.join("whole").exists() {
        return Ok(());
    }
    eprintln!("benchsuite: making a table of {}", database.name());
    crate::data::remove(&data)?;
    output(&mut database.shell(&data, database.make()))?;
    let server = Server::start(database, &data)?;
    let fill = format!("echo '{}' | {} >&2", database.fill(), database.ask());
    output(&mut database.shell(&data, &fill))?;
    drop(server);
    Ok(std::fs::write(data.join("whole"), "")?)
}

/// The database's side: starts the server, reads the table twice, and asks; see [`measured`].
pub(crate) fn serve(database: Database, dir: &Path) -> Result<()> {
    let data = database.data(dir);
    let _server = Server::start(database, &data)?;
    let mut first = Client::start(database, &data)?;
    // Read twice, since the kernel keeps pages as active from their second use on.
    (0..2).try_for_each(|_| first.ask(database.warm()))?;
    let mut clients =
        (0..CLIENTS).map(|_| Client::start(database, &data)).collect::<Result<Vec<_>>>()?;
    clients.iter_mut().try_for_each(|client| client.ask("select 1;\n"))?;
    measured(|stop| ask_all(clients, stop))
}

/// Has all clients ask until `stop`; returns the times of all.
fn ask_all(clients: Vec<Client>, stop: &AtomicBool) -> Result<Histogram> {
    let mut all = Histogram::default();
    thread::scope(|scope| {
        let asking: Vec<_> = (1..)
            .zip(clients)
            .map(|(number, client)| scope.spawn(move || ask_until(client, number, stop)))
            .collect();
        for asking in asking {
            all.merge(&asking.join().expect("a client does not panic")?);
        }
        Ok::<_, String>(())
    })?;
    Ok(all)
}

/// Asks at a fixed rate; a query that comes late because the one before took long is asked at once,
/// and its time counts from when it was due.
fn ask_until(
    mut client: Client,
    number: u64,
    stop: &AtomicBool,
) -> std::result::Result<Histogram, String> {
    let mut random = Random::new(number);
    let mut latencies = Histogram::default();
    let mut due = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let row = random.below(ROWS) + 1;
        client
            .ask(&format!("select v from t where id = {row};\n"))
            .map_err(|error| error.to_string())?;
        latencies.add(due.elapsed().as_nanos() as u64);
        due += EVERY;
    }
    Ok(latencies)
}
