//! What was answered lately: ojs-init says later what it makes of it.

use std::collections::VecDeque;

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

/// The newest answers by the job's id, the newest last. Each job brings one, and next to none is
/// looked for.
#[derive(Default)]
pub(crate) struct Answers(VecDeque<(String, Answer)>);

impl Answers {
    pub(crate) fn remember(&mut self, id: &str, answer: Answer) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((id.to_owned(), answer));
    }

    pub(crate) fn get(&self, id: &str) -> Option<Answer> {
        self.0.iter().rev().find(|(answered, _)| answered == id).map(|(_, answer)| *answer)
    }

    pub(crate) fn forget(&mut self, id: &str) -> Option<Answer> {
        let newest = self.get(id)?;
        self.0.retain(|(answered, _)| answered != id);
        Some(newest)
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
        assert_eq!(answers.0.len(), MOST);
        assert_eq!(answers.forget("x"), Some(Answer::Fail));
        assert_eq!(answers.get("x"), None);
    }
}
