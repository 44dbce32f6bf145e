//! Java virtual machines of a recording: their names, their methods, and the agent in them.

use super::Session;
use crate::capture::java;
use crate::capture::jfr::Jfr;
use std::path::PathBuf;

impl Session<'_> {
    /// Asks each machine once, and young ones again.
    pub(super) fn ask_virtual_machines(&mut self) {
        let mut flights = Vec::new();
        for pid in self.machines.due(&self.registry) {
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
            let Some((names, first)) = self.machines.names(pid) else { continue };
            self.full_names.extend(names);
            if let Some(scheduled) = java::scheduled(pid) {
                self.scheduled.retain(|stage| stage.pid != pid);
                self.scheduled.extend(scheduled);
            }
            match java::compiled(pid) {
                Some(map) => self.stacks.add_compiled(pid, map),
                None if first => self.say_once(format!(
                    "methods of the virtual machine {pid}: it did not answer, or has no \
                     Compiler.perfmap (before JDK 17)"
                )),
                None => {}
            }
            // At the end of a recording it is too late for these.
            if first && !self.over() {
                self.send_agent(pid);
                flights.push(pid);
            }
        }
        // Last: what others are asked takes none of a flight's time.
        if self.options.jfr {
            flights.into_iter().for_each(|pid| self.start_flight(pid));
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
