//! Streams of events that announce anything at any time, and the promise that there are none
//! outside running.

use std::time::Duration;

use ojs_lifecycle::api::{Call, CallId, Event, JobId, Phase, StreamNews};

use super::world::{Action, World};

/// Duration of a stream.
const FOR_EVER: Duration = Duration::from_secs(24 * 60 * 60);

impl World {
    /// The next news of each stream. The machine cannot see whether they are true.
    pub fn news_of_streams(&self, actions: &mut Vec<Action>) {
        if self.left.news == 0 {
            return;
        }
        let job = self.jobs.keys().next().cloned();
        let known = job.clone().unwrap_or(JobId("nobody's".into()));
        for id in self.streams() {
            let news = [
                StreamNews::Opened,
                StreamNews::JobAvailable {
                    job: None,
                    came_due: false,
                },
                StreamNews::JobAvailable {
                    job: job.clone(),
                    came_due: true,
                },
                StreamNews::JobTaken(known.clone()),
                StreamNews::JobComesLater,
                StreamNews::JobCancelled(known.clone()),
                StreamNews::BackendLeaves,
            ];
            actions.extend(news.into_iter().map(|news| Action::Told(id, news)));
        }
    }

    pub fn told(&mut self, id: CallId, news: StreamNews) {
        self.left.news -= 1;
        if news == StreamNews::Opened {
            let until = self.now.after(FOR_EVER);
            let stream = self.asked.iter_mut().find(|(asked, ..)| *asked == id);
            stream.into_iter().for_each(|(_, _, give_up)| *give_up = until);
        }
        self.happen(Event::StreamSaid(id, news));
    }

    /// The machine has no streams outside running.
    pub fn check_streams(&mut self) {
        if self.machine.snapshot().phase != Phase::Running && self.streams().next().is_some() {
            self.break_promise("a stream outside running");
        }
    }

    fn streams(&self) -> impl Iterator<Item = CallId> {
        let streams = self
            .asked
            .iter()
            .filter(|(_, call, _)| matches!(call, Call::Listen { .. }));
        streams.map(|(id, ..)| *id)
    }
}
