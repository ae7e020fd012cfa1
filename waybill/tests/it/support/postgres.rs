//! PostgreSQL servers of a test's own: a primary, and a standby that follows it. They come from Debian's
//! package, and everything of theirs is in one folder.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use store::sql::{Access, Db};
use tempfile::TempDir;

use super::process::{self, free_port};
use super::proxy::Proxy;
use super::{eventually, tools};

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

/// A server; killed when dropped.
pub struct Server {
    child: Child,
    pub url: String,
}

impl Replicated {
    /// None: PostgreSQL's programs are not here.
    pub async fn start() -> Option<Self> {
        let programs = programs()?;
        let folder = tempfile::tempdir().unwrap();
        // The user postgres goes through it.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let data = own_folder(&folder.path().join("primary"));
        let mut initdb = as_postgres(&programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8"]);
        initdb.args(["--locale=C.UTF-8", "--no-sync", "--pgdata"]);
        initdb.arg(&data);
        done(initdb).await;
        let primary = Server::start(&programs, &data).await;
        let replication = Proxy::to(&primary.url).await;
        let standby = follow(&programs, &folder.path().join("standby"), &replication).await;
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
        let programs = programs().expect("they were there");
        self.replication.lead_to(&self.standby.url);
        self.replication.interrupt();
        self.made += 1;
        let data = self.folder.path().join(format!("standby-{}", self.made));
        let standby = follow(&programs, &data, &self.replication).await;
        self.primary = std::mem::replace(&mut self.standby, standby);
        wait_for_standby(&self.primary).await;
    }
}

/// A new standby, which copies the server behind the proxy and follows it.
async fn follow(programs: &Path, data: &Path, replication: &Proxy) -> Server {
    let data = own_folder(data);
    let mut copy = as_postgres(&programs.join("pg_basebackup"));
    copy.args(["--dbname", &replication.url, "--write-recovery-conf"]);
    copy.args(["--checkpoint=fast", "--no-sync", "--pgdata"]);
    copy.arg(&data);
    done(copy).await;
    Server::start(programs, &data).await
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
    /// Starts the server whose data is in this folder, and waits until it answers.
    async fn start(programs: &Path, data: &Path) -> Self {
        let port = free_port();
        let log = File::create(data.with_extension("log")).unwrap();
        let mut command = as_postgres(&programs.join("postgres"));
        command.arg("-D").arg(data).args(["-p", &port.to_string()]);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        let child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn();
        let server = Server {
            child: child.unwrap(),
            url: format!("postgres://postgres@127.0.0.1:{port}/postgres"),
        };
        let db = Db::open(&server.url, 1).await.unwrap();
        eventually("the server answers", async || db.ping().await.is_ok()).await;
        db.close().await;
        server
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

/// A program run by the user postgres if this is root, as whom PostgreSQL refuses to run.
fn as_postgres(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    command.env("LC_ALL", "C.UTF-8").current_dir("/");
    command
}

fn own_folder(folder: &Path) -> PathBuf {
    let mut make = Command::new("install");
    make.args(["--directory", "--mode=0700"]);
    if is_root() {
        make.args(["--owner=postgres", "--group=postgres"]);
    }
    assert!(make.arg(folder).status().unwrap().success());
    folder.to_owned()
}

async fn done(command: Command) {
    let output = process::run(command).await;
    assert!(output.status.success(), "{output:?}");
}
