//! Java virtual machines of a recording: their names, their methods, and the agent in them.

use super::Session;
use crate::capture::java;
use crate::capture::jfr::Jfr;
use std::path::PathBuf;

impl Session<'_> {
    /// Once for each; again those that were just started.
    pub(super) fn ask_virtual_machines(&mut self) {
        let java = self.registry.processes.values().filter(|process| process.java);
        let due = java.filter(|process| self.asked.due(process.pid, process.started));
        let due: Vec<u32> = due.map(|process| process.pid).collect();
        let mut flights = Vec::new();
        for pid in due {
            let why = match (self.options.attach, java::refuses(pid)) {
                (false, _) => Some("--no-attach"),
                (true, true) => Some(
                    "it runs with -XX:+DisableAttachMechanism, and is not asked: names have the 15 \
                     characters that the kernel keeps, or restart it without",
                ),
                (true, false) => None,
            };
            if let Some(why) = why {
                self.say_once(format!(
                    "full names and methods of the virtual machine {pid}: {why}"
                ));
                continue;
            }
            let answered = self.machines.entry(pid).or_default();
            let Some(names) = java::names(pid) else { continue };
            let first = !std::mem::replace(answered, true);
            self.full_names.extend(names);
            self.scheduled.retain(|stage| stage.pid != pid);
            self.scheduled.extend(java::scheduled(pid));
            if first {
                self.send_agent(pid);
                flights.push(pid);
            }
            match java::compiled(pid) {
                Some(map) => self.stacks.add_compiled(pid, map),
                None => self.say_once(format!(
                    "methods of the virtual machine {pid}: there is no Compiler.perfmap before JDK 17"
                )),
            }
        }
        // Last: what others are asked takes none of a flight's time.
        if self.options.jfr {
            flights.into_iter().for_each(|pid| self.start_flight(pid));
        }
    }

    pub(super) fn tell_silent_machines(&mut self) {
        let silent = self.machines.iter().filter(|(_, answered)| !**answered);
        for pid in silent.map(|(pid, _)| *pid).collect::<Vec<u32>>() {
            self.say_once(format!(
                "full names and methods of the virtual machine {pid}: it did not answer, or refused \
                 (jcmd {pid} Thread.print says why; openjdk-17-jdk-headless has jcmd)"
            ));
        }
    }

    fn start_flight(&mut self, pid: u32) {
        let left = self.options.length.saturating_sub(self.begun.elapsed());
        if left.is_zero() {
            return;
        }
        match Jfr::start(pid, left) {
            Ok(flight) => self.flights.push(flight),
            Err(why) => self.say_once(why),
        }
    }

    fn send_agent(&mut self, pid: u32) {
        let Some(agent) = self.options.agent else { return };
        let file = PathBuf::from(format!("/tmp/headworks-handed-{pid}-{}", std::process::id()));
        let left = self.options.length.saturating_sub(self.begun.elapsed());
        if java::count(agent, pid, left, &file) {
            self.agents.push((pid, file));
        } else {
            self.say_once(format!(
                "hand-overs in the virtual machine {pid}: it refused the agent (java -jar {} {pid} 1 \
                 FILE says why)",
                agent.display()
            ));
        }
    }

    pub(super) fn ask_agents(&mut self) {
        for (pid, file) in std::mem::take(&mut self.agents) {
            match java::counted(pid, &file) {
                Some((handed, 0)) => self.handed.extend(handed),
                Some((handed, lost)) => {
                    self.handed.extend(handed);
                    self.say_once(format!("{lost} hand-overs in the virtual machine {pid}"));
                }
                None => self.say_once(format!("hand-overs in the virtual machine {pid}: it ended")),
            }
        }
    }
}
