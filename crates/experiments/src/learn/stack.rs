//! One store and its hosts, each a process, from begin to end.

use super::host::{self, App, Did, Fractions, Spec};
use super::net::Net;
use super::process::{self, FILE};
use crate::running;
use anyhow::Result;
use headworks_store::governor::Window;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{ScopedJoinHandle, scope};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Requests that a store has in its fifteen disks, as by default. A host has more than these at the
/// store, so that a large share is seen to wait there.
const DEPTH: u32 = 30;

/// Size of each host's volume. Four of them are as far as the disks' arms go.
pub(super) const VOLUME_BYTES: u64 = 64 << 30;

/// What an application is to have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    BestEffort,
    /// Transactions a second.
    Target(f64),
    /// A share by hand.
    Share(f64),
}

/// The configuration of a store and its hosts.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub controller: &'static str,
    pub scheduler: &'static str,
    pub fractions: Fractions,
    /// Applications of each host.
    pub hosts: Vec<Vec<App>>,
    /// Of all applications, host by host: what they are to have in each stage of the run. A change
    /// is a `reload`.
    pub goals: Vec<Vec<Goal>>,
    /// When each stage ends, in seconds.
    pub stages_s: Vec<u64>,
    /// Hosts are in network namespaces, and reach the store over TCP with TLS.
    pub net: bool,
    pub seed: u64,
}

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    /// For each second, what each application did.
    pub seconds: Vec<Vec<Did>>,
    /// For each application, what the store saw of it, second by second.
    pub windows: Vec<Vec<Window>>,
}

impl Setup {
    fn config(&self, dir: &Path, net: Option<&Net>, stage: usize) -> String {
        let (places, tls) = net.map(Net::listens).unwrap_or_default();
        let mut text = format!(
            "listen = [\"unix:{}\"{places}]\ncontroller = \"{}\"\n[device]\nkind = \"array\"\ndisks = 15\n\
             depth = {DEPTH}\nmodel = \"disks\"\nscheduler = \"{}\"\n",
            dir.join("store").display(),
            self.controller,
            self.scheduler,
        );
        text += &tls;
        for host in 0..self.hosts.len() {
            text += &format!(
                "[[volume]]\nname = \"h{host}\"\npath = \"memory\"\nsize = {VOLUME_BYTES}\n"
            );
        }
        let mut goals = self.goals[stage].iter();
        for (host, apps) in self.hosts.iter().enumerate() {
            for (number, (app, goal)) in apps.iter().zip(&mut goals).enumerate() {
                // What has no tag is the first one's: there is no other application.
                let tagged = number > 0;
                text += &format!(
                    "[[application]]\nname = \"{}\"\nvolume = \"h{host}\"\ntagged = {tagged}\n",
                    app.name
                );
                text += &match goal {
                    Goal::BestEffort => String::new(),
                    Goal::Target(target) => format!("target = {target:.3}\nlimit = 0.95\n"),
                    Goal::Share(share) => format!("share = {share:.4}\n"),
                };
            }
        }
        text
    }

    /// Runs it in this directory, by the program `headworks`.
    pub(super) fn run(&self, program: &Path, dir: &Path) -> Result<Outcome> {
        let hosts = self.hosts.len();
        let mut net = if self.net { Some(Net::new(&dir.join("net"), hosts)?) } else { None };
        let (_store, _) = process::serve(program, dir, &self.config(dir, net.as_ref(), 0))?;
        let control = dir.join("store.control");
        let mut sockets = vec![dir.join("store"); hosts];
        if let Some(net) = &mut net {
            for (host, socket) in sockets.iter_mut().enumerate() {
                *socket = net.tunnel(program, host)?;
            }
        }
        let begin_unix_ms = host::soon_unix_ms();
        scope(|scope| {
            let mut hosts: Vec<ScopedJoinHandle<'_, Result<Vec<Vec<Did>>>>> = Vec::new();
            for (number, apps) in self.hosts.iter().enumerate() {
                let spec = Spec {
                    uri: format!("nbd+unix:///h{number}?socket={}", sockets[number].display()),
                    bytes: VOLUME_BYTES,
                    fractions: self.fractions,
                    apps: apps.clone(),
                    seed: self.seed * 100 + number as u64,
                    begin_unix_ms,
                };
                let path = dir.join(format!("host{number}.json"));
                hosts.push(scope.spawn(move || process::one_host(&spec, &path)));
            }
            let watched = self.stages(dir, net.as_ref(), begin_unix_ms);
            let mut outcome = Outcome::default();
            for host in hosts {
                let did = host.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
                outcome.seconds.resize(did.len().max(outcome.seconds.len()), Vec::new());
                for (second, did) in outcome.seconds.iter_mut().zip(did) {
                    second.extend(did);
                }
            }
            watched?;
            for app in self.hosts.iter().flatten() {
                outcome.windows.push(process::windows(&control, &app.name)?);
            }
            Ok(outcome)
        })
    }

    /// Follows the run, and changes what applications are to have.
    fn stages(&self, dir: &Path, net: Option<&Net>, begin_unix_ms: u64) -> Result<()> {
        let until = |s: u64| {
            let end = UNIX_EPOCH + Duration::from_millis(begin_unix_ms + 1_000 * s);
            end.duration_since(SystemTime::now()).unwrap_or_default()
        };
        for (stage, end_s) in self.stages_s.iter().enumerate() {
            if stage > 0 && self.goals[stage] != self.goals[stage - 1] {
                fs::write(dir.join(FILE), self.config(dir, net, stage))?;
                process::reload(&dir.join("store.control"))?;
            }
            running::pause(until(*end_s))?;
        }
        Ok(())
    }
}

/// Runs all of these at the same time: what the machine does to one, it does to all.
pub(super) fn together(setups: &[Setup], program: &Path, dir: &Path) -> Result<Vec<Outcome>> {
    let one = |(number, setup): (usize, &Setup)| -> Result<Outcome> {
        let own: PathBuf = dir.join(format!("stack{number}"));
        let outcome = setup.run(program, &own);
        let _ = fs::remove_dir_all(&own);
        outcome
    };
    scope(|scope| {
        let one = &one;
        let stacks: Vec<_> =
            setups.iter().enumerate().map(|each| scope.spawn(move || one(each))).collect();
        let ended = stacks
            .into_iter()
            .map(|stack| stack.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::host::Stage;
    use super::super::load::Kind;
    use super::*;

    fn setup() -> Setup {
        let stages = vec![Stage { until_s: 5, part: 1.0, cost: 1.0 }];
        let app = |name: &str, posts| App {
            name: name.to_owned(),
            kind: Kind::OltpA { small: 10, large: 1 },
            posts,
            stages: stages.clone(),
        };
        Setup {
            controller: "need",
            scheduler: "sfq",
            fractions: Fractions::Granted,
            hosts: vec![vec![app("a0", true), app("a1", false)], vec![app("b0", false)]],
            goals: vec![
                vec![Goal::Target(50.0), Goal::BestEffort, Goal::BestEffort],
                vec![Goal::Share(0.5), Goal::BestEffort, Goal::BestEffort],
            ],
            stages_s: vec![3, 5],
            net: false,
            seed: 1,
        }
    }

    #[test]
    fn the_configuration_of_each_stage_is_one() {
        for stage in 0..2 {
            let text = setup().config(Path::new("/tmp"), None, stage);
            let config = headworks_store::config::parse(&text, Path::new("x")).unwrap();
            let own = config.applications.iter().find(|own| own.name == "a0").unwrap();
            assert_eq!((own.target.is_some(), own.share.is_some()), (stage == 0, stage == 1));
            assert_eq!(config.applications.len(), 3);
        }
    }
}
