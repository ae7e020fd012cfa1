//! Starts and kills the real binaries, as an operator or the kernel would.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use config::{Mode, SETTINGS};
use domain::job::Queue;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use uuid::Uuid;

use super::backend::{Backend, PRIVACY_KEY, environment, is_distributed};
use super::{PAYMENT_SECRET, STOREFRONT_SECRET, eventually, pause, serves_here};

/// The path of the binary.
pub fn binary() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_waybill"))
}

/// The names of the binary: itself, and the links that are one part of Waybill.
pub fn programs() -> BTreeSet<String> {
    let queues = Queue::ALL.map(|it| it.into_str());
    let parts = ["ingress"].into_iter().chain(queues);
    let mut names: BTreeSet<String> = parts.map(|part| format!("waybill-{part}")).collect();
    names.insert("waybill".into());
    names
}

/// Puts the binary with all its names into a folder, as a package does.
pub fn link_programs(folder: &Path) {
    for name in programs() {
        symlink(binary(), folder.join(name)).unwrap();
    }
}

/// A binary of Waybill under one of its names, as a link to it would start it.
fn named(binary: &Path, name: &str) -> Command {
    let mut command = Command::new(binary);
    command.arg0(name);
    command
}

/// A command with settings of its own: nothing of the test's environment but what it needs. It is in
/// UTC wherever the test is.
pub fn command(name: &str, settings: &[(&str, &str)]) -> Command {
    let mut command = named(&binary(), name);
    command.env_clear().env("TZ", "UTC0").stdin(Stdio::null());
    if is_distributed() {
        command.env("PRIVACY_KEY", PRIVACY_KEY);
    }
    command.envs(settings.iter().copied());
    command
}

/// Where a process on a SQLite file keeps its exports: beside the file, so that no two tests have the same
/// journal of erasures.
fn exports_beside(settings: &[(String, String)]) -> Option<(&'static str, String)> {
    let url = settings.iter().find(|(name, _)| name == "DATABASE_URL");
    let file = url.and_then(|(_, url)| url.strip_prefix("sqlite://"))?;
    let exports = Path::new(file).with_file_name("exports");
    Some((
        "PRIVACY_EXPORT_URL",
        format!("file://{}", exports.display()),
    ))
}

/// The settings of a distributed process on a test's backend.
pub fn settings(backend: &Backend, port: u16) -> Vec<(String, String)> {
    let mut settings = vec![
        ("LISTEN_ADDR".into(), format!("127.0.0.1:{port}")),
        ("PUBLIC_URL".into(), format!("http://127.0.0.1:{port}")),
        ("DATABASE_URL".into(), backend.database_url.clone()),
        ("STOREFRONT_WEBHOOK_SECRET".into(), STOREFRONT_SECRET.into()),
        ("PAYMENT_WEBHOOK_SECRET".into(), PAYMENT_SECRET.into()),
        ("STOREFRONT_RATE_PER_SECOND".into(), "0".into()),
        ("PAYMENT_RATE_PER_SECOND".into(), "0".into()),
        // A run would take the fault that a test has prepared for a call.
        ("RECONCILE_MINUTES".into(), "0".into()),
        ("RUST_LOG".into(), "warn".into()),
        ("PRIVACY_EXPORT_URL".into(), backend.export_url()),
    ];
    if let Some(url) = &backend.amqp_url {
        settings.push(("AMQP_URL".into(), url.clone()));
        settings.push(("AMQP_PREFIX".into(), backend.name.clone()));
        settings.push(("PRIVACY_KEY".into(), PRIVACY_KEY.into()));
    }
    settings
}

/// A port that nobody listens on and that no other test has chosen.
///
/// It is below those of the servers that `scripts/services` starts (from 20000 on), and those from which the system takes
/// ports for outgoing connections (from 32768 on), so nothing else has it by the time that it is listened on. Tests are
/// processes: a lock on a file keeps it for this one.
pub fn free_port() -> u16 {
    static CHOSEN: Mutex<Vec<File>> = Mutex::new(Vec::new());
    // A whole run has a TMPDIR of its own, and the same ports as others.
    let folder = environment("TEST_PORTS").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join("waybill-test-ports");
    std::fs::create_dir_all(&folder).unwrap();
    loop {
        let [.., high, low] = *Uuid::now_v7().as_bytes();
        // The three after it are those that its process takes beside it, such as its console's.
        let port = 10_000 + u16::from_be_bytes([high, low]) % 2_500 * 4;
        let file = File::create(folder.join(port.to_string())).unwrap();
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            CHOSEN.lock().unwrap().push(file);
            return port;
        }
    }
}

/// The wall clock of a process of ours, which a test sets: a file that a library (libfaketime) reads instead of asking the
/// system alone. The monotonic clock, by which limits are counted, is the machine's, as when somebody sets the time.
pub struct WallClock {
    file: PathBuf,
    /// None if it is not installed. The clock cannot be set then.
    library: Option<PathBuf>,
}

impl WallClock {
    pub fn at(file: PathBuf) -> Self {
        let folders = Path::new("/usr/lib").read_dir().into_iter().flatten();
        let libraries =
            folders.map(|folder| folder.unwrap().path().join("faketime/libfaketimeMT.so.1"));
        let library = libraries.into_iter().find(|library| library.exists());
        let clock = WallClock { file, library };
        clock.set(0);
        clock
    }

    pub fn can_be_set(&self) -> bool {
        self.library.is_some()
    }

    /// How many seconds it is ahead of the machine's from now on, or within a second.
    pub fn set(&self, seconds: i64) {
        // In one step: a file that is being written would be read as some other time.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(next, &self.file).unwrap();
    }

    pub fn settings(&self) -> Vec<(String, String)> {
        let Some(library) = &self.library else {
            return Vec::new();
        };
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let settings = [
            ("LD_PRELOAD", text(library)),
            ("FAKETIME_TIMESTAMP_FILE", text(&self.file)),
            ("FAKETIME_CACHE_DURATION", "1".to_owned()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ];
        settings
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }
}

/// The settings without the secrets that a worker does not read.
fn read_by(name: &str, settings: &[(String, String)]) -> Vec<(String, String)> {
    let queue = name
        .strip_prefix("waybill-")
        .and_then(|name| name.parse().ok());
    let mode = queue.map_or(Mode::Production, Mode::Worker);
    let is_read = |name: &str| {
        let setting = SETTINGS.iter().find(|setting| setting.name == name);
        setting.is_none_or(|setting| setting.readers.have(mode))
    };
    let read = settings.iter().filter(|(name, _)| is_read(name));
    read.cloned().collect()
}

/// A process of ours; killed when dropped.
pub struct Process {
    child: Child,
}

impl Process {
    pub fn start(name: &str, arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut command = named(&binary(), name);
        command.args(arguments);
        Self::spawn(command, &read_by(name, settings), Stdio::inherit())
    }

    /// As [`Process::start`], by a program that is not ours, such as a shell that becomes ours.
    pub fn start_as(program: &Path, arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::spawn(command, settings, Stdio::inherit())
    }

    /// As [`Process::start`], its log lines at the end of a file.
    pub fn start_logged(
        name: &str,
        arguments: &[&str],
        settings: &[(String, String)],
        log: &Path,
    ) -> Self {
        Self::start_version(&binary(), name, arguments, settings, log)
    }

    /// As [`Process::start_logged`], by the binary of this or another version.
    pub fn start_version(
        binary: &Path,
        name: &str,
        arguments: &[&str],
        settings: &[(String, String)],
        log: &Path,
    ) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = named(binary, name);
        command.args(arguments);
        Self::spawn(command, &read_by(name, settings), log.into())
    }

    fn spawn(mut command: Command, settings: &[(String, String)], log: Stdio) -> Self {
        let child = command
            .env_clear()
            .envs(exports_beside(settings))
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Process { child }
    }

    /// `waybill serve` with a disk of `megabytes` at `mount`, which nobody else sees.
    pub fn serve_with_disk(settings: &[(String, String)], mount: &Path, megabytes: u32) -> Self {
        const MOUNT: &str = r#"mount -t tmpfs -o size="$1" tmpfs "$2" && exec "$3" serve"#;
        let mut command = Command::new("/usr/bin/unshare");
        command
            .args(["--mount", "--map-root-user", "/bin/sh", "-c", MOUNT, "sh"])
            .arg(format!("{megabytes}m"))
            .arg(mount)
            .arg(binary());
        Self::spawn(command, settings, Stdio::inherit())
    }

    /// Where a path of its own is seen from here.
    pub fn path(&self, path: &Path) -> PathBuf {
        let path = path.strip_prefix("/").unwrap();
        PathBuf::from(format!("/proc/{}/root", self.child.id())).join(path)
    }

    /// The memory that it has at this moment.
    pub fn resident_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib = line
            .and_then(|line| line.split_whitespace().nth(1))
            .unwrap();
        kib.parse::<u64>().unwrap() / 1024
    }

    /// SIGKILL: no goodbye.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    /// How it has ended by itself, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// It gets no more memory than it has, and no thread, or again as much as it wants. It may have ended by then.
    pub fn limit_memory(&mut self, is_limited: bool) {
        // The soft limit alone: a lower hard one could not be lifted again.
        let limit = if is_limited { "0" } else { "unlimited" };
        let mut command = Command::new("prlimit");
        command.arg(format!("--data={limit}:"));
        command.args(["--pid", &self.child.id().to_string()]);
        let is_set = command.stderr(Stdio::null()).status().unwrap().success();
        assert!(is_set || self.has_ended());
    }

    /// SIGSTOP and SIGCONT: it stands still in between, with its connections.
    pub fn stand_still(&self) {
        self.signal("-STOP");
    }

    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status();
        assert!(sent.unwrap().success());
    }

    /// SIGTERM, and how it ended.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal("-TERM");
        for _ in 0..1000 {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            pause(Duration::from_millis(20)).await;
        }
        panic!("the process did not end within 20 s of SIGTERM");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a service answers `/readyz` with 200.
pub async fn is_ready(port: u16) {
    eventually("the service is ready", async || {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/readyz")).await;
        answer.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

/// Runs a command to its end beside this thread, on which the test's own service may be in the
/// middle of a transaction: SQLite has one writer, and the command would wait for it in vain.
pub async fn run(mut command: Command) -> Output {
    let ended = tokio::task::spawn_blocking(move || command.output());
    ended.await.unwrap().unwrap()
}

/// As [`run`], for a test that runs no service itself: this thread waits.
pub fn output(mut command: Command) -> Output {
    assert!(
        !serves_here(),
        "a service runs on this thread, and would stand still; use process::run(..).await"
    );
    command.output().unwrap()
}

/// A program of the folder `scripts`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../scripts")
        .join(name)
}

/// What a script has printed that brings something from PyPI or npm (`scripts/from-registries`). None when that could not be
/// had; `.ci/run` says so too.
pub fn needs_registries(ended: &Output) -> Option<String> {
    const SKIPPED: i32 = 77;
    let (out, err) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    if ended.status.code() == Some(SKIPPED) {
        eprintln!("{err}");
        return None;
    }
    assert!(ended.status.success(), "{out}{err}");
    Some(out.into_owned())
}

/// A command that runs on. Its lines come one by one, those of standard error apart.
pub struct Lines {
    child: Child,
    out: UnboundedReceiver<String>,
    err: UnboundedReceiver<String>,
}

impl Lines {
    pub fn start(arguments: &[&str], settings: &[(String, String)]) -> Self {
        let mut command = Command::new(binary());
        command.args(arguments);
        command.env_clear().env("TZ", "UTC0");
        command.envs(exports_beside(settings));
        command.envs(settings.iter().cloned());
        Self::of(command)
    }

    pub fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Lines { child, out, err }
    }

    /// The next line of standard output.
    pub async fn line(&mut self) -> String {
        if let Some(line) = next(&mut self.out).await {
            return line;
        }
        let mut err = Vec::new();
        while let Some(line) = next(&mut self.err).await {
            err.push(line);
        }
        panic!("it ended without a line: {err:#?}");
    }

    /// Reads standard output up to a line that has this text, and returns that line.
    pub async fn until(&mut self, text: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Reads standard error up to a line that has this text, and returns the rest of that line.
    pub async fn says(&mut self, text: &str) -> String {
        loop {
            let line = next(&mut self.err).await;
            let line = line.unwrap_or_else(|| panic!("it never said {text:?}"));
            if let Some((_, rest)) = line.split_once(text) {
                return rest.to_owned();
            }
        }
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What is left on standard output and standard error, and how it ended.
    pub async fn end(mut self) -> (Option<i32>, Vec<String>, Vec<String>) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        while let Some(line) = next(&mut self.out).await {
            out.push(line);
        }
        while let Some(line) = next(&mut self.err).await {
            err.push(line);
        }
        (self.child.wait().unwrap().code(), out, err)
    }

    /// As the kernel does when memory is short.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ctrl-C.
    pub fn interrupt(&self) {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status().unwrap();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(from: impl std::io::Read + Send + 'static) -> UnboundedReceiver<String> {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

async fn next(lines: &mut UnboundedReceiver<String>) -> Option<String> {
    let line = tokio::time::timeout(Duration::from_secs(30), lines.recv());
    line.await.expect("a line or the end in time")
}
