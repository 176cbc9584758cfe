//! How a process ended that held jobs, and which jobs. Used in their FAILs, in the log and in the
//! termination log.

use std::fmt;

use crate::api::end_cause::EndCause;
use crate::api::worker_end::WorkerEnd;
use ojs_values::exit::Ended;

/// How a process that held jobs ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Departure {
    /// The worker ended by itself, with this status.
    Worker(WorkerEnd),
    /// Another process of the worker ended. Its status is unknown because it is not a child of
    /// ojs-init.
    Other,
    /// ojs-init ended the worker, or one of its processes, for this reason.
    WasEnded {
        cause: EndCause,
        /// How the worker ended, if ojs-init ended the worker itself or the worker ended first.
        end: Option<WorkerEnd>,
    },
}

/// The end of a process that held jobs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Death {
    /// How the process ended.
    pub departure: Departure,
    /// How many unanswered jobs the process held.
    pub held: usize,
}

impl Death {
    /// A JSON object with the details for a person who inspects the job in the backend.
    pub fn details(&self) -> String {
        let (end, is_own_end) = match &self.departure {
            Departure::Worker(end) => (Some(*end), true),
            Departure::Other => (None, false),
            Departure::WasEnded { end, .. } => (*end, false),
        };
        let how = end.map_or(String::new(), |end| match end.ended {
            Ended::Exited(status) => format!(r#""exit_status":{status},"#),
            Ended::Signalled(signal) => format!(r#""signal":"{signal}","#),
        });
        let kills = end.map_or(String::new(), |end| format!(r#","oom_kills":{}"#, end.oom_kills));
        let by = match &self.departure {
            Departure::WasEnded { .. } if !is_own_end => r#","ended_by":"ojs-init""#,
            Departure::Worker(_) | Departure::Other | Departure::WasEnded { .. } => "",
        };
        format!(r#"{{{how}"held":{}{kills}{by}}}"#, self.held)
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = match self.held {
            1 => "1 job".to_owned(),
            held => format!("{held} jobs"),
        };
        match &self.departure {
            Departure::Worker(end) => write!(f, "{} while it held {held}{}", how(end.ended), end.out_of_memory()),
            Departure::Other => write!(
                f,
                "a process of the worker ended while it held {held}; ojs-init is not its parent and does not know its status"
            ),
            Departure::WasEnded {
                cause: EndCause::Orphaned,
                end: Some(end),
            } => write!(
                f,
                "{}{}; ojs-init then ended its process that held {held}",
                how(end.ended),
                end.out_of_memory()
            ),
            Departure::WasEnded { cause, .. } => {
                write!(f, "ojs-init ended the process of the worker that held {held}: {cause}")
            }
        }
    }
}

fn how(ended: Ended) -> String {
    match ended {
        Ended::Exited(_) => format!("the worker ended with {ended}"),
        Ended::Signalled(_) => format!("the worker was {ended}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ojs_values::signal::Signal;

    fn segv() -> Signal {
        Signal::from_number(11).unwrap_or(Signal::KILL)
    }

    fn death(departure: Departure, held: usize) -> (String, String) {
        let death = Death { departure, held };
        (death.to_string(), death.details())
    }

    #[test]
    fn a_death_tells_the_signal_or_the_status_the_jobs_and_the_kills_for_memory() {
        let by = |ended, oom_kills| Departure::Worker(WorkerEnd { ended, oom_kills });
        assert_eq!(
            death(by(Ended::Signalled(segv()), 0), 6),
            (
                "the worker was killed by SIGSEGV while it held 6 jobs".to_owned(),
                r#"{"signal":"SIGSEGV","held":6,"oom_kills":0}"#.to_owned()
            )
        );
        assert_eq!(
            death(by(Ended::Exited(3), 0), 1),
            (
                "the worker ended with exit status 3 while it held 1 job".to_owned(),
                r#"{"exit_status":3,"held":1,"oom_kills":0}"#.to_owned()
            )
        );
        let (message, details) = death(by(Ended::Signalled(Signal::KILL), 2), 2);
        assert!(
            message.contains("(out of memory: oom_kill of the cgroup rose by 2)"),
            "{message}"
        );
        assert_eq!(details, r#"{"signal":"SIGKILL","held":2,"oom_kills":2}"#);
    }

    #[test]
    fn the_death_of_a_process_that_is_not_our_child_says_that_its_status_is_not_known() {
        let (message, details) = death(Departure::Other, 2);
        assert!(message.ends_with("does not know its status"), "{message}");
        assert_eq!(details, r#"{"held":2}"#);
    }

    #[test]
    fn a_death_by_our_hand_says_so_and_why() {
        let ended = Some(Ended::Signalled(segv()).into());
        let (message, details) = death(
            Departure::WasEnded {
                cause: EndCause::Silent,
                end: None,
            },
            1,
        );
        assert_eq!(
            message,
            "ojs-init ended the process of the worker that held 1 job: it did not answer three pings"
        );
        assert_eq!(details, r#"{"held":1,"ended_by":"ojs-init"}"#);
        let (message, details) = death(
            Departure::WasEnded {
                cause: EndCause::Orphaned,
                end: ended,
            },
            2,
        );
        assert_eq!(
            message,
            "the worker was killed by SIGSEGV; ojs-init then ended its process that held 2 jobs"
        );
        assert_eq!(
            details,
            r#"{"signal":"SIGSEGV","held":2,"oom_kills":0,"ended_by":"ojs-init"}"#
        );
    }
}
