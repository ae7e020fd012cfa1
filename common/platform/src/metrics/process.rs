//! What Linux knows about this process, read from `/proc` at each scrape. On other systems
//! nothing is shown. The values are written as text, because the recorder's counters are whole
//! numbers and a second of CPU time is a long step.

use std::fmt::Write as _;
use std::fs;

use super::table::{ALL, Kind};

/// How many ticks of `/proc/*/stat` are a second, on every architecture of Linux.
const TICKS: f64 = 100.0;

pub fn is_ours(name: &str) -> bool {
    name.starts_with("process_")
}

pub fn render(text: &mut String) {
    for metric in ALL.iter().filter(|metric| is_ours(metric.name)) {
        let Some(value) = value(metric.name) else {
            continue;
        };
        let kind = if metric.kind == Kind::Counter {
            "counter"
        } else {
            "gauge"
        };
        let (name, help) = (metric.name, metric.help);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n\n"
        );
    }
}

fn value(name: &str) -> Option<f64> {
    match name {
        "process_cpu_seconds_total" => Some((stat(14)? + stat(15)?) / TICKS),
        "process_resident_memory_bytes" => kibibytes("VmRSS:"),
        "process_virtual_memory_bytes" => kibibytes("VmSize:"),
        "process_threads" => field("/proc/self/status", "Threads:"),
        "process_open_fds" => {
            let open = fs::read_dir("/proc/self/fd").ok()?.count();
            // One of the descriptors reads this folder.
            Some(f64::from(u32::try_from(open).ok()?.saturating_sub(1)))
        }
        "process_max_fds" => field("/proc/self/limits", "Max open files"),
        "process_start_time_seconds" => Some(field("/proc/stat", "btime")? + stat(22)? / TICKS),
        _ => None,
    }
}

/// The `n`-th field of `/proc/self/stat` (proc(5)). The second field is a name and may have
/// spaces.
fn stat(n: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(n - 3)?.parse().ok()
}

fn kibibytes(name: &str) -> Option<f64> {
    Some(field("/proc/self/status", name)? * 1024.0)
}

/// The first number of the line that begins with `name`.
fn field(path: &str, name: &str) -> Option<f64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
