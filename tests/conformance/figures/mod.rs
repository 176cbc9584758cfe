//! Figures: what an init costs, measured in turns within one run so that all meet the same noise.

mod cost;
mod idle;
mod latency;
mod start_race;
mod statistics;

use std::path::Path;

use crate::case::{Ctx, Mode, Trouble};
use crate::cases::is_static;
use crate::init::{Init, Kind};
use crate::namespace::Launch;
use crate::suite::Workshop;
use crate::support::temp::TempDir;

/// One column.
#[derive(Debug)]
pub struct Contestant {
    name: &'static str,
    /// None for the column without any init.
    kind: Option<Kind>,
    ctx: Ctx,
    _dir: TempDir,
}

impl Contestant {
    /// A start of this contestant with nothing else said.
    fn launch(&self) -> Result<Launch<'_>, Trouble> {
        let launch = self.ctx.launch(&[])?;
        Ok(if self.kind.is_none() {
            launch.without_init()
        } else {
            launch
        })
    }

    fn is_ours(&self) -> bool {
        self.kind == Some(Kind::Ojs)
    }

    /// Among which the best sets the bounds: the programs that people install, not their static
    /// builds.
    fn is_peer(&self) -> bool {
        self.kind.is_some_and(|kind| kind != Kind::Ojs) && self.name != "tini-static"
    }
}

/// One line: a value for each contestant that has one.
#[derive(Debug)]
pub struct Figure {
    what: &'static str,
    values: Vec<Option<f64>>,
    /// The complaint about ours, if there is one.
    complaint: Option<String>,
}

/// How much dearer than the best peer ours may be, as a part of the peer's time.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    start: f64,
    end: f64,
    signal: f64,
}

impl Tolerance {
    /// On a machine that does nothing else. At the end the kernel takes down more pages of ours,
    /// those of the agent among them.
    pub const QUIET_MACHINE: Self = Self {
        start: 0.1,
        end: 0.2,
        signal: 0.1,
    };

    /// Among all other tests, on a machine that belongs to many: times differ by a third from one
    /// minute to the next. What a counter shows (system calls, instructions) is judged as on a
    /// quiet machine.
    pub const SHARED_MACHINE: Self = Self {
        start: 1.0,
        end: 1.0,
        signal: 1.0,
    };
}

/// The figures alone.
pub fn run() -> Result<bool, String> {
    let workshop = Workshop::open(true)?;
    let inits = workshop.inits()?;
    measure(&workshop, &inits, Tolerance::QUIET_MACHINE)
}

/// Measurements that have to agree on a complaint.
const MEASUREMENTS: usize = 3;

/// Measures again, with fresh processes, what gives a complaint. The place of a process' pages is
/// worth some percent for as long as it lives, and no number of rounds with the same processes
/// shows that. What all measurements agree on stays.
fn confirmed(measure: impl Fn() -> Result<Vec<Figure>, Trouble>) -> Result<Vec<Figure>, Trouble> {
    let mut figures = measure()?;
    for _ in 1..MEASUREMENTS {
        if figures.iter().all(|figure| figure.complaint.is_none()) {
            break;
        }
        for (figure, again) in figures.iter_mut().zip(measure()?) {
            if figure.complaint.is_some() && again.complaint.is_none() {
                *figure = again;
            }
        }
    }
    Ok(figures)
}

/// Measures and prints; true when ours are within their bounds.
pub fn measure(workshop: &Workshop, inits: &[Init], tolerance: Tolerance) -> Result<bool, String> {
    let contestants = contestants(workshop, inits)?;
    let measured = all_figures(&contestants, tolerance);
    let figures = measured.map_err(|trouble| match trouble {
        Trouble::Fail(reason) | Trouble::NotApplicable(reason) => format!("figures: {reason}"),
    })?;
    print(&contestants, &figures);
    let is_release = inits
        .iter()
        .any(|init| init.kind == Kind::Ojs && is_static(&init.program));
    if !is_release {
        println!("\nojs-init is not the static release build here: nothing is judged.");
    }
    let complaints: Vec<&String> = figures.iter().filter_map(|figure| figure.complaint.as_ref()).collect();
    for complaint in &complaints {
        println!("{}: {complaint}", if is_release { "BAD" } else { "note" });
    }
    Ok(complaints.is_empty() || !is_release)
}

fn contestants(workshop: &Workshop, inits: &[Init]) -> Result<Vec<Contestant>, String> {
    let mut found = Vec::new();
    let mut add = |name: &'static str, kind: Option<Kind>, init: &Init| -> Result<(), String> {
        let (ctx, dir) = workshop.context(init, Mode::Pid1, name)?;
        found.push(Contestant {
            name,
            kind,
            ctx,
            _dir: dir,
        });
        Ok(())
    };
    for init in inits {
        add(init.kind.name(), Some(init.kind), init)?;
    }
    let tini_static = Path::new("/usr/bin/tini-static");
    if tini_static.exists() {
        let init = Init {
            kind: Kind::Tini,
            program: tini_static.to_owned(),
        };
        add("tini-static", Some(Kind::Tini), &init)?;
    }
    if let Some(any) = inits.first() {
        add("no init", None, any)?;
    }
    Ok(found)
}

fn all_figures(contestants: &[Contestant], tolerance: Tolerance) -> Result<Vec<Figure>, Trouble> {
    let mut figures = confirmed(|| latency::of_life(contestants, tolerance))?;
    figures.extend(confirmed(|| Ok(vec![latency::of_signals(contestants, tolerance)?]))?);
    figures.extend(cost::measure(contestants)?);
    figures.extend(idle::measure(contestants)?);
    figures.push(start_race::measure(contestants)?);
    Ok(figures)
}

fn print(contestants: &[Contestant], figures: &[Figure]) {
    print!("{:<62}", "figure (as process 1; medians)");
    for contestant in contestants {
        print!(" {:>11}", contestant.name);
    }
    println!();
    for figure in figures {
        print!("{:<62}", figure.what);
        for value in &figure.values {
            let text = match value {
                None => "-".to_owned(),
                Some(value) if value.fract().abs() < 0.005 => format!("{value:.0}"),
                Some(value) => format!("{value:.2}"),
            };
            print!(" {text:>11}");
        }
        println!();
    }
}
