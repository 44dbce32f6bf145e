//! What a configuration may say, and what to write instead.

use super::{APPLICATIONS_MAX, Application, Client, Config, Kind, Volume};
use crate::apps::Key;
use crate::learner::Learner;
use crate::number::Number;
use headworks_policy::block::SchedulerKind;
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Most disks of an array: twice as many requests are the greatest depth.
const DISKS_MAX: u32 = 128;

/// What is wrong, without its place in the text.
pub(super) struct Wrong {
    /// The key's path, such as `volume.2.size`.
    pub(super) at: String,
    /// What is wrong.
    pub(super) what: String,
    /// What to write instead.
    pub(super) mend: String,
}

fn wrong<T>(
    at: impl Into<String>,
    what: impl Into<String>,
    mend: impl Into<String>,
) -> Result<T, Wrong> {
    Err(Wrong { at: at.into(), what: what.into(), mend: mend.into() })
}

/// What to write for a key whose value has the wrong type.
pub(super) fn mend_of(key: &str, message: &str) -> String {
    match key {
        "client" | "volume" | "application" => {
            format!("Write the section as `[[{key}]]`: there may be several.")
        }
        "device" | "tls" | "etcd" => format!("Write the section as `[{key}]`."),
        "listen" | "clients" | "servers" => format!("Write a list: `{key} = [\"...\"]`."),
        _ if message.ends_with("expected a string") => {
            format!("Write a text in quotes: `{key} = \"...\"`.")
        }
        _ => "docs/store.md shows every key.".to_owned(),
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), Wrong> {
        if self.listen.is_empty() {
            let mend = "Write listen = [\"unix:/run/headworks/store\"].";
            return wrong("listen", "`listen` names no place", mend);
        }
        for place in &self.listen {
            self.check_place(place)?;
        }
        if self.connections == 0 {
            let what = "with `connections = 0` no client could come";
            return wrong("connections", what, "Write a number above zero, or remove the line.");
        }
        if let Some(address) = self.metrics.filter(|address| !address.ip().is_loopback()) {
            let what =
                format!("metrics at {address} can be read from other machines: they have no TLS");
            let mend = "Write 127.0.0.1:PORT, and let a proxy with TLS pass it on.";
            return wrong("metrics", what, mend);
        }
        self.check_controller()?;
        self.check_device()?;
        unique("client", self.clients.iter().map(|client| &client.name))?;
        unique("volume", self.volumes.iter().map(|volume| &volume.name))?;
        unique("application", self.applications.iter().map(|application| &application.name))?;
        for (index, client) in self.clients.iter().enumerate() {
            check_client(&format!("client.{index}"), client)?;
        }
        for (index, volume) in self.volumes.iter().enumerate() {
            self.check_volume(&format!("volume.{index}"), volume)?;
        }
        for (index, application) in self.applications.iter().enumerate() {
            self.check_application(&format!("application.{index}"), application)?;
        }
        let all = self.volumes.len() * self.clients.len().max(1) + self.applications.len();
        if all > APPLICATIONS_MAX {
            let what =
                format!("{all} pairs of volumes and clients are more than {APPLICATIONS_MAX}");
            return wrong("volume", what, "Serve some of them by another store.");
        }
        Ok(())
    }

    fn check_place(&self, place: &str) -> Result<(), Wrong> {
        let address = match place.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => return Ok(()),
            Some(("tcp", address)) => address.parse::<SocketAddr>().ok(),
            _ => None,
        };
        let Some(address) = address else {
            let what = format!("`{place}` is no place");
            return wrong("listen", what, "Write unix:PATH or tcp:ADDRESS:PORT.");
        };
        if !address.ip().is_loopback() && self.tls.is_none() {
            let what = format!("{place} can be reached from other machines without TLS");
            return wrong(
                "listen",
                what,
                "Write a section [tls], or listen at tcp:127.0.0.1:PORT.",
            );
        }
        Ok(())
    }

    fn check_controller(&self) -> Result<(), Wrong> {
        let learner = match self.controller.parse::<Learner>() {
            Ok(learner) => learner,
            Err(what) => {
                return wrong("controller", what, "Write one of them, or remove the line.");
            }
        };
        let by_hand = self.applications.iter().position(|application| application.share.is_some());
        if let (None, Some(index)) = (learner.need(false, false), by_hand) {
            let what = format!("the controller `{}` knows no share by hand", self.controller);
            let mend = "Remove `controller`, or give the application a target.";
            return wrong(format!("application.{index}.share"), what, mend);
        }
        Ok(())
    }

    fn check_device(&self) -> Result<(), Wrong> {
        let scheduler = &self.device.scheduler;
        if scheduler != "bucket" {
            if let Err(error) = scheduler.parse::<SchedulerKind>() {
                let mend = "Write one of them, or bucket; or remove the line.";
                return wrong("device.scheduler", error.to_string(), mend);
            }
        } else if self.device.mib_per_s == 0.0 {
            let what = "the scheduler `bucket` needs `mib_per_s`";
            return wrong("device.scheduler", what, "Write mib_per_s = 100.0 below it.");
        } else {
            number("device.mib_per_s", "`mib_per_s`", Number::Rate, self.device.mib_per_s)?;
        }
        if self.device.kind == Kind::Array && self.device.disks == 0 {
            let what = "an array needs the number of its `disks`";
            return wrong("device.kind", what, "Write disks = 15 below it.");
        }
        if self.device.disks > DISKS_MAX {
            let what = format!("{} disks are more than {DISKS_MAX}", self.device.disks);
            return wrong("device.disks", what, "Write fewer, and their `depth`.");
        }
        Ok(())
    }

    fn check_volume(&self, at: &str, volume: &Volume) -> Result<(), Wrong> {
        let name = &volume.name;
        let is_file = volume.path != "memory" && !volume.path.contains("://");
        let same = |other: &&Volume| other.name != *name && other.path == volume.path;
        if let Some(other) = self.volumes.iter().find(same).filter(|_| is_file) {
            let what = format!("volumes `{}` and `{name}` have the same file", other.name);
            return wrong(format!("{at}.path"), what, "Name another file in one of them.");
        }
        if let Some(size) = &volume.size {
            if !size.bytes().is_some_and(|bytes| bytes > 0 && bytes % 512 == 0) {
                let what = format!("the size of volume `{name}` is no multiple of 512 bytes");
                return wrong(format!("{at}.size"), what, "Write a size such as \"10GiB\".");
            }
        } else if volume.path == "memory" || volume.path.contains("://") {
            let what = format!("volume `{name}` needs a size");
            return wrong(at, what, "Write size = \"10GiB\" in this section.");
        }
        for client in volume.clients.iter().flatten() {
            if !self.clients.iter().any(|known| known.name == *client) {
                let what = format!("volume `{name}`: there is no [[client]] `{client}`");
                let mend = format!("Write a section [[client]] with name = \"{client}\".");
                return wrong(format!("{at}.clients"), what, mend);
            }
        }
        Ok(())
    }

    fn check_application(&self, at: &str, application: &Application) -> Result<(), Wrong> {
        let Application { name, target, latency_ms, weight, limit, share, .. } = application;
        let known = self.volumes.iter().find(|volume| volume.name == application.volume);
        let Some(volume) = known else {
            let known: Vec<&str> = self.volumes.iter().map(|volume| &*volume.name).collect();
            let what =
                format!("application `{name}`: there is no [[volume]] `{}`", application.volume);
            let mend = format!("The volumes are: {}.", known.join(", "));
            return wrong(format!("{at}.volume"), what, mend);
        };
        if let Some(client) = &application.client {
            let known = self.clients.iter().any(|known| known.name == *client);
            let may = volume.clients.as_ref().is_none_or(|clients| clients.contains(client));
            if !known || !may {
                let what = format!(
                    "application `{name}`: client `{client}` may not open `{}`",
                    volume.name
                );
                let mend = "Write the client in the volume's `clients` and as a [[client]].";
                return wrong(format!("{at}.client"), what, mend);
            }
        }
        let ways = [("target", target), ("latency_ms", latency_ms), ("share", share)];
        let mut said = ways.iter().filter(|(_, way)| way.is_some());
        if let (Some(_), Some((key, _))) = (said.next(), said.next()) {
            let what =
                format!("application `{name}` has more than one of target, latency_ms, share");
            return wrong(format!("{at}.{key}"), what, "Keep one of them.");
        }
        let own = |key: Key| match key {
            Key::Target => *target,
            Key::LatencyMs => *latency_ms,
            Key::Share => *share,
            Key::Weight => Some(*weight),
            Key::Limit => *limit,
        };
        for key in Key::ALL {
            let Some(found) = own(key) else { continue };
            let whose = format!("application `{name}`: `{}`", key.name());
            number(&format!("{at}.{}", key.name()), &whose, key.into(), found)?;
        }
        Ok(())
    }
}

fn number(at: &str, whose: &str, is: Number, found: f64) -> Result<(), Wrong> {
    let Err(why) = is.check(found) else { return Ok(()) };
    let (what, mend) = why.split_once(": w").unwrap_or((&why, "rite another number"));
    wrong(at, format!("{whose}: {what}"), format!("W{mend}."))
}

fn check_client(at: &str, client: &Client) -> Result<(), Wrong> {
    if client.uid.is_none() && client.certificate.is_none() && client.address.is_none() {
        let name = &client.name;
        let what = format!(
            "client `{name}` has neither uid, certificate nor address: it could never come"
        );
        return wrong(at, what, "Write uid = 1000 (by a Unix socket), or certificate = \"HOST\".");
    }
    Ok(())
}

fn unique<'a>(section: &str, names: impl Iterator<Item = &'a String>) -> Result<(), Wrong> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        let at = format!("{section}.{index}.name");
        if name.is_empty() || name.len() > 200 || name.contains(['\0', '\n', '"', '\\']) {
            let mend = "Write 1 to 200 letters, without quotes and backslashes.";
            return wrong(at, format!("{name:?} is no name of a {section}"), mend);
        }
        if !seen.insert(name) {
            let what = format!("two [[{section}]] are called `{name}`");
            return wrong(at, what, "Give one of them another name.");
        }
    }
    Ok(())
}
