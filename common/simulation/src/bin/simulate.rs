//! Runs schedules on all cores for a while, or one of them with its timeline. `scripts/simulate` starts it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use platform::clock::Clock;
use platform::terminal;
use simulation::{Outcome, Rules, Wrong};

/// What the command line says.
struct Asked {
    seconds: u64,
    /// The seed of the one schedule to be shown.
    seed: Option<u64>,
    /// The first of many seeds.
    first: u64,
    cores: usize,
    rules: Rules,
}

fn asked() -> Option<Asked> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut asked = Asked {
        seconds: 10,
        seed: None,
        first: 1,
        cores,
        rules: Rules::default(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--seconds" => asked.seconds = value.parse().ok()?,
            "--seed" => asked.seed = Some(value.parse().ok()?),
            "--first" => asked.first = value.parse().ok()?,
            "--cores" => asked.cores = value.parse().ok().filter(|it| *it > 0)?,
            "--wrong" => asked.rules = Rules(Some(Wrong::named(&value)?)),
            _ => return None,
        }
    }
    Some(asked)
}

fn main() -> ExitCode {
    let Some(asked) = asked() else {
        terminal::err("simulate: these are no options of it; see scripts/simulate --help");
        return ExitCode::from(2);
    };
    let found = match asked.seed {
        Some(seed) => Some(seed),
        None => search(&asked),
    };
    match found {
        Some(seed) => show(seed, asked.rules),
        None => ExitCode::SUCCESS,
    }
}

/// Shows the timeline of a schedule, and which invariant it breaks.
fn show(seed: u64, rules: Rules) -> ExitCode {
    let Outcome {
        steps,
        lasted,
        broken,
        timeline,
    } = simulation::replay(seed, rules);
    let end = match &broken {
        Some(what) => what,
        None => "everything came to rest, and every invariant holds",
    };
    let timeline = timeline.join("\n");
    let text =
        format!("seed {seed}\n{timeline}\n{steps} steps, {lasted} ms of simulated time\n{end}");
    if terminal::out(&text).is_err() || broken.is_some() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs schedule after schedule on each core. Returns the first seed that breaks an invariant, if one does.
fn search(asked: &Asked) -> Option<u64> {
    let clock = Clock::system();
    let begun = clock.elapsed();
    let time = Duration::from_secs(asked.seconds);
    let (next, found) = (AtomicU64::new(asked.first), AtomicU64::new(u64::MAX));
    let (steps, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let run = || {
        while !is_over.load(Ordering::Relaxed) {
            let first = next.fetch_add(64, Ordering::Relaxed);
            for seed in first..first + 64 {
                let outcome = simulation::run(seed, asked.rules);
                steps.fetch_add(u64::from(outcome.steps), Ordering::Relaxed);
                if outcome.broken.is_some() {
                    found.fetch_min(seed, Ordering::Relaxed);
                    is_over.store(true, Ordering::Relaxed);
                    return;
                }
            }
            if clock.elapsed() >= begun + time {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..asked.cores {
            scope.spawn(run);
        }
    });
    let millis = clock.elapsed().saturating_sub(begun).as_millis().max(1);
    let schedules = next.into_inner() - asked.first;
    let steps = steps.into_inner();
    terminal::err(&format!(
        "{schedules} schedules from seed {} on {} cores, {} a second, {} steps each",
        asked.first,
        asked.cores,
        u128::from(schedules) * 1000 / millis,
        steps / schedules.max(1),
    ));
    Some(found.into_inner()).filter(|seed| *seed != u64::MAX)
}
