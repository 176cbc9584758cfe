//! What was answered lately: ojs-init says later what it makes of it.

use std::collections::{HashMap, VecDeque};

const MOST: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ack,
    Fail,
    Release,
}

impl Answer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Answer::Ack => "ack",
            Answer::Fail => "fail",
            Answer::Release => "release",
        }
    }
}

/// The newest answers by the job's id.
#[derive(Default)]
pub(crate) struct Answers {
    by_id: HashMap<String, (Answer, u64)>,
    order: VecDeque<(String, u64)>,
    next: u64,
}

impl Answers {
    pub(crate) fn remember(&mut self, id: &str, answer: Answer) {
        self.next += 1;
        self.by_id.insert(id.to_owned(), (answer, self.next));
        self.order.push_back((id.to_owned(), self.next));
        while self.order.len() > MOST {
            let Some((old, number)) = self.order.pop_front() else { break };
            if self.by_id.get(&old).is_some_and(|(_, newest)| *newest == number) {
                self.by_id.remove(&old);
            }
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<Answer> {
        self.by_id.get(id).map(|(answer, _)| *answer)
    }

    pub(crate) fn forget(&mut self, id: &str) -> Option<Answer> {
        self.by_id.remove(id).map(|(answer, _)| answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_answers_are_remembered() {
        let mut answers = Answers::default();
        for round in 0..5 {
            for number in 0..MOST {
                answers.remember(&number.to_string(), Answer::Ack);
            }
            answers.remember("x", if round == 4 { Answer::Fail } else { Answer::Ack });
        }
        assert_eq!(answers.get("x"), Some(Answer::Fail));
        assert_eq!(answers.get("0"), None);
        assert!(answers.order.len() <= MOST && answers.by_id.len() <= MOST);
        assert_eq!(answers.forget("x"), Some(Answer::Fail));
        assert_eq!(answers.get("x"), None);
    }
}
