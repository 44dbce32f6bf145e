//! Remedies of a problem, and their costs (sections 4.2.1 to 4.2.6).

use crate::remedy::{Problem, Remedy};

/// The kind of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Directness {
    /// It changes the architecture so that the problem is gone.
    Direct,
    /// It adds information and control logic that work around the problem.
    Indirect,
}

/// A remedy for a finding.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Advice {
    /// How it goes about it.
    pub directness: Directness,
    /// In words.
    pub about: &'static str,
    /// In the form of a system file; several are applied in order.
    pub remedies: Vec<String>,
    /// Its cost, and when it is the better choice.
    pub trade_off: &'static str,
}

impl Advice {
    fn new(
        directness: Directness,
        about: &'static str,
        remedies: &[Remedy],
        trade_off: &'static str,
    ) -> Advice {
        let remedies = remedies.iter().map(Remedy::to_toml).collect();
        Advice { directness, about, remedies, trade_off }
    }

    /// A direct remedy of a problem.
    pub(super) fn direct(problem: Problem, remedies: &[Remedy]) -> Advice {
        let (about, trade_off) = match problem {
            Problem::NoScheduling => (
                "Give the stage a bounded pool and a queue that takes a policy.",
                "Simple and local, and it scales with the number of nodes. A bounded pool can run out of threads: look for blocking afterwards.",
            ),
            Problem::UnknownUsage => (
                "Move this use into a separate stage with its own queue, where every request needs the resource and the amount is known.",
                "Nothing is guessed or thrown away. The more the paths in the stage intertwine, the more of the code changes, and its threads must not wait for the new stage.",
            ),
            Problem::HiddenContention => (
                "Let the stages take their requests from one scheduler.",
                "Holds from the first request on. The stages must be in one process, and the scheduler's lock is taken more often.",
            ),
            Problem::Blocking => (
                "Make the stage asynchronous: its threads go on to the next request instead of waiting.",
                "The highest throughput. What the thread kept on its stack while waiting must be kept somewhere else, which can mean a rewrite.",
            ),
            Problem::OrderingConstraint => (
                "Keep the order only among the requests of one client: one stream for each.",
                "Low and steady latency. There are as many logs as clients, with more and smaller writes, and recovery must read all of them.",
            ),
            Problem::SurplusThreads => (
                "Let as many requests through as the resource has servers; a queue for each resource where a stage uses several.",
                "A number where there is one resource. The queue must be quick: between two requests the resource is idle.",
            ),
            Problem::ServiceToEnd => (
                "Serve in turns: after a while a thread puts the rest of a request back into the queue, or requests come in parts of one size.",
                "Long requests cannot keep short ones waiting. The code must be able to stop within a request, and each turn has its overhead.",
            ),
            Problem::HeldThreads => (
                "Hold no thread over a wait or over the use of several resources: asynchronous stages, one for each resource.",
                "The queue then decides about what is scarce. What the thread kept on its stack while waiting must be kept somewhere else.",
            ),
        };
        Advice::new(Directness::Direct, about, remedies, trade_off)
    }

    /// An indirect remedy of a problem.
    pub(super) fn indirect(problem: Problem, remedies: &[Remedy]) -> Advice {
        let (about, trade_off) = match (problem, remedies.first()) {
            (Problem::NoScheduling, _) => (
                "Hold requests back at a queue upstream, at rates that follow the use of the resource.",
                "No change of the stage. The queue gives up work conservation and probes for what it may use, so throughput is lower, and every node tells the others about its load.",
            ),
            (Problem::UnknownUsage, _) => (
                "While the CPU is idle, try waiting requests, and put those back that turn out to need more.",
                "Little to change. Work of the requests that were put back is lost; good for stable workloads, few kinds of resources and fast CPUs.",
            ),
            (Problem::HiddenContention, Some(Remedy::BackOff { .. })) => (
                "A stage that uses too much of the resource works with fewer threads until the others have caught up.",
                "Works across processes. Compensates afterwards instead of deciding beforehand.",
            ),
            (Problem::HiddenContention, _) => (
                "A controller lowers the weights of clients that get more than their share of the node.",
                "Works across processes and nodes. Takes the longer to settle the more a workload changes.",
            ),
            (Problem::Blocking, Some(Remedy::CongestionFeedback { .. })) => (
                "Skip clients whose requests would wait long downstream.",
                "Keeps threads for useful work as long as it guesses right: throughput falls quickly with wrong guesses.",
            ),
            (Problem::Blocking, _) => (
                "Treat the threads as a resource of which each client gets its part.",
                "Decided locally and easily built. Threads still wait, so more of them are needed, and more threads mean less control and longer tails.",
            ),
            (Problem::SurplusThreads, _) => (
                "Let as many requests through as the scarcest of its resources has servers.",
                "A number. Other resources of the stage are used less, and its threads become what is scarce: look for held threads afterwards.",
            ),
            // Only turns help.
            (Problem::ServiceToEnd, _) => (
                "Bound the amounts that clients may ask for.",
                "No change of the stage. Clients notice.",
            ),
            (Problem::HeldThreads, _) => (
                "Treat the threads as a resource of which each client gets its part.",
                "Decided locally and easily built. Threads are still held, so throughput is lower than without.",
            ),
            (Problem::OrderingConstraint, _) => (
                "Let only a few requests into the ordered queue, and choose upstream which ones.",
                "The ordered stage stays the same. Requests in its queue are served in order, so latency is bounded but not low, and a small bound costs throughput.",
            ),
        };
        Advice::new(Directness::Indirect, about, remedies, trade_off)
    }
}
