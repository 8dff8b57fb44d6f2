//! The adversary: every choice that the memory model leaves open, from one seed.
//!
//! A choice is a question with `n` answers, of which 0 is the plainest (go on with the same warp, complete at once, do
//! not fail spuriously). What is not 0 is a *deviation*; the list of deviations replays a run, and a shorter list that
//! still fails explains it better.

use std::collections::BTreeMap;

/// How asynchronous operations are timed, and how warps interleave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// No deviations at all: warps in turn until they block, everything complete when issued.
    Orderly,
    /// Operations complete when issued; warps interleave at random.
    Early,
    /// Operations complete only when nothing else can run; warps interleave at random.
    Late,
    /// Everything at random; how often, the seed says too.
    Random,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    /// Which CTA goes on.
    Cta,
    /// Which warp goes on.
    Warp,
    /// For how long.
    Burst,
    /// When an operation completes: at once, as late as possible, or so many steps from now.
    Delay,
    /// Which of the late operations completes when nothing can run.
    Late,
    /// Whether a copy completes in pieces.
    Split,
    /// Whether a wait on a phase that is over comes back without an answer.
    Spurious,
    /// Whether a wait on a phase that is not over comes back at once.
    Impatient,
}

/// Which late operation completes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Oldest,
    Newest,
    Any,
}

/// Answers everything that is left open.
#[derive(Debug, Clone)]
pub(crate) struct Adversary {
    state: u64,
    policy: Policy,
    preempt: u32,
    lateness: u32,
    impatience: u32,
    order: Order,
    calm: bool,
    script: Option<BTreeMap<u64, u32>>,
    asked: u64,
    /// Questions that were not answered plainly, by number, with their answers.
    pub deviations: Vec<(u64, u32)>,
}

impl Adversary {
    /// Answers from a seed.
    pub fn seeded(seed: u64, policy: Policy) -> Adversary {
        let mut own = Adversary {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d,
            policy,
            preempt: 0,
            lateness: 0,
            impatience: 0,
            order: Order::Oldest,
            calm: false,
            script: None,
            asked: 0,
            deviations: Vec::new(),
        };
        // Some seeds switch warps at every instruction, some hardly ever; some finish most copies at once, some none.
        own.preempt = [2, 4, 16, 64][own.below(4) as usize];
        own.lateness = own.below(5);
        own.impatience = [1, 8, 15][own.below(3) as usize];
        own.order = [Order::Oldest, Order::Newest, Order::Any][own.below(3) as usize];
        own
    }

    /// Answers from a seed, but plainly about everything except when operations complete.
    pub fn calm(seed: u64, policy: Policy) -> Adversary {
        Adversary { calm: true, ..Adversary::seeded(seed, policy) }
    }

    /// Answers as written down; plainly where nothing is.
    pub fn scripted(deviations: &[(u64, u32)]) -> Adversary {
        let script = Some(deviations.iter().copied().collect());
        Adversary { script, ..Adversary::seeded(0, Policy::Orderly) }
    }

    /// An answer in `0..n`.
    pub fn choose(&mut self, question: Question, n: u32) -> u32 {
        if n <= 1 {
            return 0;
        }
        let index = self.asked;
        self.asked += 1;
        let answer = match &self.script {
            Some(script) => script.get(&index).map_or(0, |&a| a.min(n - 1)),
            None => self.draw(question, n),
        };
        if answer != 0 {
            self.deviations.push((index, answer));
        }
        answer
    }

    fn draw(&mut self, question: Question, n: u32) -> u32 {
        match (question, self.policy) {
            (_, Policy::Orderly) => 0,
            (Question::Delay, Policy::Early) => 0,
            (question, _) if self.calm && question != Question::Delay => 0,
            (Question::Delay, Policy::Late) => 1,
            (Question::Delay, _) => {
                if self.below(4) < self.lateness {
                    1
                } else {
                    self.below(n)
                }
            }
            (Question::Burst, _) => {
                if self.below(self.preempt) == 0 {
                    1 + self.below(n - 1)
                } else {
                    0
                }
            }
            (Question::Split | Question::Spurious, _) => u32::from(self.below(8) == 0),
            (Question::Impatient, _) => u32::from(self.below(16) < self.impatience),
            (Question::Late, _) if self.order == Order::Oldest => 0,
            (Question::Late, _) if self.order == Order::Newest => n - 1,
            (Question::Late | Question::Warp | Question::Cta, _) => self.below(n),
        }
    }

    fn below(&mut self, n: u32) -> u32 {
        ((u64::from(n) * (self.next() >> 32)) >> 32) as u32
    }

    /// splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(mut adversary: Adversary) -> (Vec<u32>, Vec<(u64, u32)>) {
        let questions = [Question::Warp, Question::Delay, Question::Burst, Question::Spurious];
        let answers = (0..200).map(|i| adversary.choose(questions[i % 4], 5)).collect();
        (answers, adversary.deviations)
    }

    #[test]
    fn a_seed_and_its_deviations_give_the_same_answers() {
        let (first, deviations) = answers(Adversary::seeded(7, Policy::Random));
        assert_eq!(first, answers(Adversary::seeded(7, Policy::Random)).0);
        assert_eq!(first, answers(Adversary::scripted(&deviations)).0);
        assert_ne!(first, answers(Adversary::seeded(8, Policy::Random)).0);
    }

    #[test]
    fn orderly_never_deviates() {
        assert!(answers(Adversary::seeded(7, Policy::Orderly)).1.is_empty());
    }
}
