//! PostgreSQL servers of a test's own: a primary, and a standby that follows it. They come from Debian's
//! package, and everything of theirs is in one folder. The data of each is on a small disk of its own, which a
//! test can fill, if the tests may mount one.

use std::ffi::OsString;
use std::fs::{File, Permissions};
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use store::sql::{Access, Db};
use tempfile::TempDir;
use tokio::time::Instant;

use super::process::{self, free_port};
use super::proxy::Proxy;
use super::{eventually, pause, tools};

/// What a killed server has written is kept by the system, so nobody waits for the disk.
const SETTINGS: [&str; 6] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "shared_buffers=64MB",
    "max_connections=100",
    "log_min_messages=warning",
];

/// A primary whose commits wait for its standby.
pub struct Replicated {
    pub primary: Server,
    pub standby: Server,
    /// Stands between the standby and its primary.
    pub replication: Proxy,
    /// Leads to the primary until a test has it lead elsewhere.
    pub address: Proxy,
    folder: TempDir,
    /// How many standbys there were.
    made: usize,
}

/// A server; killed when dropped, and its data is gone then.
pub struct Server {
    child: Child,
    pub url: String,
    place: Place,
    port: u16,
}

/// Where the data of a server is.
struct Place {
    programs: PathBuf,
    folder: PathBuf,
    disk: Option<Disk>,
}

/// A file system in memory. It is seen only by its keeper and by what is run in the keeper's namespace, and it is
/// gone when the keeper ends, which is when the test ends, however it ends.
struct Disk {
    keeper: Child,
}

/// How large a disk is that is not full. Only what is on it takes memory.
const ROOM: &str = "16g";
/// By when a server has recovered whose disk was full.
const RECOVERED: Duration = Duration::from_mins(1);

impl Replicated {
    /// None: PostgreSQL's programs are not here.
    pub async fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        // The user postgres goes through it.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let place = Place::new(programs.clone(), folder.path().join("primary"));
        let mut initdb = place.command("initdb");
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8"]);
        initdb.args(["--locale=C.UTF-8", "--no-sync", "--pgdata"]);
        initdb.arg(&place.folder);
        done(initdb).await;
        let primary = Server::start(place).await;
        let replication = Proxy::to(&primary.url).await;
        let place = Place::new(programs, folder.path().join("standby"));
        let standby = follow(place, &replication).await;
        wait_for_standby(&primary).await;
        let address = Proxy::to(&primary.url).await;
        Some(Replicated {
            primary,
            standby,
            replication,
            address,
            folder,
            made: 1,
        })
    }

    /// The standby becomes the primary, and the address leads to it.
    pub async fn fail_over(&self) {
        self.standby.run("select pg_promote()").await;
        self.address.lead_to(&self.standby.url);
    }

    /// After the primary died and its standby took its place: a new standby follows that one.
    pub async fn replace_standby(&mut self) {
        self.replication.lead_to(&self.standby.url);
        self.replication.interrupt();
        self.made += 1;
        let programs = self.standby.place.programs.clone();
        let folder = self.folder.path().join(format!("standby-{}", self.made));
        let standby = follow(Place::new(programs, folder), &self.replication).await;
        self.primary = std::mem::replace(&mut self.standby, standby);
        wait_for_standby(&self.primary).await;
    }
}

/// A new standby, which copies the server behind the proxy and follows it.
async fn follow(place: Place, replication: &Proxy) -> Server {
    let mut copy = place.command("pg_basebackup");
    copy.args(["--dbname", &replication.url, "--write-recovery-conf"]);
    copy.args(["--checkpoint=fast", "--no-sync", "--pgdata"]);
    copy.arg(&place.folder);
    done(copy).await;
    Server::start(place).await
}

/// From now on commits of this server wait for its standby.
async fn wait_for_standby(primary: &Server) {
    let wait = "alter system set synchronous_standby_names = '*'";
    primary.run(wait).await;
    primary.run("select pg_reload_conf()").await;
    let admin = Db::open(&primary.url, 1).await.unwrap();
    let follows = "select count(*) as n from pg_stat_replication where sync_state = 'sync'";
    eventually("the primary waits for its standby", async || {
        let row = admin.query(follows).fetch_one().await.unwrap();
        row.get::<i64>("n").unwrap() == 1
    })
    .await;
    admin.close().await;
}

impl Server {
    /// Starts the server whose data is there, and waits until it answers.
    async fn start(place: Place) -> Self {
        let port = free_port();
        let server = Server {
            child: place.start(port),
            url: format!("postgres://postgres@127.0.0.1:{port}/postgres"),
            place,
            port,
        };
        let db = Db::open(&server.url, 1).await.unwrap();
        eventually("the server answers", async || db.ping().await.is_ok()).await;
        db.close().await;
        server
    }

    /// Takes all room that its disk has left. False if it has no disk of its own.
    pub async fn fill_disk(&self) -> bool {
        // What is on it may grow between the two commands, and no file system can be smaller than that.
        const FILL: &str = r#"
            until mount -o "remount,size=$(df --block-size=1 --output=used "$1" | tail -n 1)" "$1" 2>&1; do :; done
        "#;
        self.remount(FILL).await
    }

    /// Its disk has room again. If it has ended without any, it is started again, as by its supervisor.
    pub async fn make_room(&mut self) {
        const MAKE_ROOM: &str = r#"mount -o "remount,size=$2" "$1""#;
        self.remount(MAKE_ROOM).await;
        let db = Db::open(&self.url, 1).await.unwrap();
        let begun = Instant::now();
        while db.ping().await.is_err() {
            assert!(begun.elapsed() < RECOVERED, "the server does not recover");
            if self.child.try_wait().unwrap().is_some() {
                self.child = self.place.start(self.port);
            }
            pause(Duration::from_millis(50)).await;
        }
        db.close().await;
    }

    async fn remount(&self, script: &str) -> bool {
        let Some(disk) = &self.place.disk else {
            return false;
        };
        let [enter, options @ ..] = disk.enter();
        let mut shell = Command::new(enter);
        shell.args(options).args(["/bin/sh", "-c", script, "sh"]);
        shell.arg(&self.place.folder).arg(ROOM);
        done(shell).await;
        true
    }

    pub async fn run(&self, statement: &'static str) {
        let db = Db::open(&self.url, 1).await.unwrap();
        db.on_server(&[statement]).await.unwrap();
        db.close().await;
    }

    /// Sets whether it takes writes, for sessions that there are too.
    pub async fn set_read_only(&self, is_on: bool) {
        self.run(if is_on {
            "alter system set default_transaction_read_only = on"
        } else {
            "alter system reset default_transaction_read_only"
        })
        .await;
        self.run("select pg_reload_conf()").await;
        let wanted = if is_on {
            Access::ReadOnly
        } else {
            Access::Writes
        };
        eventually("the server has read it", async || {
            let db = Db::open(&self.url, 1).await.unwrap();
            let access = db.access().await.unwrap();
            db.close().await;
            access == wanted
        })
        .await;
    }

    /// SIGKILL for the server and all its sessions at one moment, as when the machine is gone.
    pub fn kill(&mut self) {
        if self.child.try_wait().unwrap().is_some() {
            return;
        }
        let id = self.child.id().to_string();
        // So it starts no more of them.
        signal("-STOP", std::slice::from_ref(&id));
        let mut all = children(&id);
        all.push(id);
        signal("-KILL", &all);
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.place.folder);
    }
}

impl Place {
    fn new(programs: PathBuf, folder: PathBuf) -> Self {
        own_folder(&folder);
        Place {
            programs,
            disk: Disk::mounted_at(&folder),
            folder,
        }
    }

    /// One of PostgreSQL's programs, run by the user postgres if this is root, as whom PostgreSQL refuses to run.
    fn command(&self, program: &str) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Some(disk) = &self.disk {
            words.extend(disk.enter().map(OsString::from));
        }
        if is_root() {
            let user = [
                "setpriv",
                "--reuid=postgres",
                "--regid=postgres",
                "--init-groups",
            ];
            words.extend(user.map(OsString::from));
        }
        words.push(self.programs.join(program).into());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env("LC_ALL", "C.UTF-8").current_dir("/");
        command
    }

    fn start(&self, port: u16) -> Child {
        let log = self.folder.with_extension("log");
        let log = File::options().append(true).create(true).open(log).unwrap();
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(&self.folder)
            .args(["-p", &port.to_string()]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
        child.unwrap()
    }
}

impl Disk {
    /// A disk that is mounted over a folder of the user postgres. None, and said so, if that is not allowed.
    fn mounted_at(folder: &Path) -> Option<Self> {
        // It waits until the test's end of its input is closed.
        const KEEP: &str = r#"
            mount -t tmpfs -o size="$2" tmpfs "$1" && chown postgres:postgres "$1" && chmod 0700 "$1" \
                && echo mounted && exec cat >/dev/null
        "#;
        if !is_root() {
            eprintln!("the servers have no disks of their own: only root may mount one");
            return None;
        }
        let mut keep = Command::new("unshare");
        keep.args(["--mount", "/bin/sh", "-c", KEEP, "sh"])
            .arg(folder)
            .arg(ROOM);
        let spawned = keep.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut keeper = spawned.unwrap();
        let mut said = [0; 8];
        let read = keeper.stdout.take().unwrap().read_exact(&mut said);
        if read.is_err() {
            eprintln!("the servers have no disks of their own: the kernel mounts none");
            keeper.wait().unwrap();
            return None;
        }
        Some(Disk { keeper })
    }

    /// What is put before a command that is to see the disk.
    fn enter(&self) -> [String; 4] {
        let keeper = self.keeper.id().to_string();
        ["nsenter", "--mount", "--target", &keeper].map(ToOwned::to_owned)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn signal(name: &str, processes: &[String]) {
    let sent = Command::new("kill").arg(name).args(processes).status();
    assert!(sent.unwrap().success());
}

fn children(parent: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|it| std::fs::read_to_string(it.path().join("stat")).ok());
    let of_parent = stats.filter_map(|stat| {
        let (id, _) = stat.split_once(' ')?;
        let (_, after_name) = stat.rsplit_once(") ")?;
        let its_parent = after_name.split(' ').nth(1)?;
        (its_parent == parent).then(|| id.to_owned())
    });
    of_parent.collect()
}

/// The folder of PostgreSQL's programs, of the newest version that is here.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let versions = versions.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let newest = versions.max_by_key(|name| name.parse::<u32>().unwrap_or_default());
    let folder = format!("/usr/lib/postgresql/{}/bin", newest.unwrap_or_default());
    tools::find(&format!("{folder}/initdb"), "--version").map(|_| folder.into())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn own_folder(folder: &Path) {
    let mut make = Command::new("install");
    make.args(["--directory", "--mode=0700"]);
    if is_root() {
        make.args(["--owner=postgres", "--group=postgres"]);
    }
    assert!(make.arg(folder).status().unwrap().success());
}

async fn done(command: Command) {
    let output = process::run(command).await;
    assert!(output.status.success(), "{output:?}");
}
