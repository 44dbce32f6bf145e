//! Writes settings into the region: the configuration at the start and at each reload, and weights.

use super::Daemon;
use crate::config::{self, Config};
use crate::log;
use crate::profile::{Bypass, Profile};
use anyhow::{Result, bail};
use headworks_hooks::identity::identity_of;
use headworks_policy::wrr::{ClassShare, Sharing};
use headworks_region::rules::{Rule, Verdict};
use headworks_region::text::Text;
use headworks_region::{Mapping, Protocol, State, clock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Writes rules and settings of `config` into the region: first the administrators' port, then the
/// sessions that the profile never holds.
pub fn apply_config(region: &Mapping, config: &Config, extra_port: Option<u16>, bypass: &[Bypass]) {
    let mut config = config.clone();
    config.rules.splice(0..0, bypass.iter().map(|bypass| bypass.rule));
    if let Some(port) = extra_port {
        let any = Text::new(b"");
        config.rules.insert(
            0,
            Rule {
                account: any,
                database: any,
                application: any,
                address: any,
                local_port: u32::from(port),
                verdict: Verdict { class: 0, bypass: true },
            },
        );
    }
    config.apply(region);
    reclassify(region);
}

/// Sets weights of classes by name: all of them, or none if one is wrong.
pub fn set_weights(region: &Mapping, weights: &BTreeMap<String, f64>) -> Result<()> {
    let classes = region.snapshot(clock::now()).classes;
    let mut places = Vec::new();
    for (name, &weight) in weights {
        let Some(class) = classes.iter().find(|class| class.name == *name) else {
            let known: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            bail!("there is no class `{name}`; the classes are: {}", known.join(", "));
        };
        if !(0.001..=1_000.0).contains(&weight) {
            bail!("the weight of `{name}` is {weight}: write a number from 0.001 to 1000");
        }
        if class.target.is_some() {
            bail!("the weight of `{name}` follows its latency target: remove latency_ms_max first");
        }
        places.push((class, (weight * 1e3).round() as u32));
    }
    for (class, thousandths) in places {
        let sharing = if class.shared { Sharing::PerClass } else { Sharing::PerUser };
        let share = ClassShare::new(thousandths, sharing);
        region.set_class(class.class as usize, &class.name, thousandths, share, class.shared);
    }
    Ok(())
}

/// If the rules have changed, puts all sessions into the classes that they name.
pub(super) fn reclassify(region: &Mapping) {
    let epoch = region.rules.epoch();
    for session in 0..region.high_water() {
        let Some(slot) = region.session(session) else { break };
        let nameless = region.protocol() == Protocol::Generic;
        let known =
            slot.state() != State::Free && (nameless || !slot.account.get().bytes().is_empty());
        if known && slot.class_epoch.load(Ordering::Relaxed) != epoch {
            let (verdict, epoch) = region.rules.classify(&identity_of(slot));
            region.classify(session, verdict.class, verdict.bypass, epoch);
        }
    }
}

/// Weights that a configuration gives to its classes, by name.
fn weights_of(config: &Config) -> BTreeMap<String, f64> {
    let weight = |thousandths| f64::from(thousandths) / 1e3;
    let classes = config.classes.iter();
    classes.map(|class| (class.name.clone(), weight(class.weight_thousandths))).collect()
}

impl Daemon {
    /// Applies the daemon's own settings. Rules, weights and settings of the gate are in the region
    /// already: the process that started the database, or a previous daemon, has put them there.
    pub(super) fn read_config(&mut self) {
        let Some(path) = &self.note.config else { return };
        match config::load(path) {
            Ok(config) => {
                self.slo.configure(weights_of(&config));
                self.serve_metrics(config.metrics);
            }
            Err(error) => {
                log::line(&format!("{error}\nwhat was in force before stays in force"));
                self.config_error = Some(error.to_string());
            }
        }
    }

    /// Serves metrics by TCP where the configuration says, or remembers why not.
    fn serve_metrics(&mut self, wanted: Option<SocketAddr>) {
        let refused = self.metrics.listen(wanted).err();
        self.metrics_error = refused.map(|error| format!("{error:#}"));
        if let Some(error) = &self.metrics_error {
            log::line(error);
        }
    }

    /// The file, checked, and the profile's current file. A reload takes only the sessions that are
    /// never held from the profile.
    fn read_files(&self, path: &Path) -> Result<(Config, Profile)> {
        let config = config::load(path)?;
        Ok((config, Profile::noted(&self.note)?))
    }

    /// Puts the current configuration file into force: all that the region holds of it, or nothing.
    /// If the address for metrics is not available, that is an error too, but the rest is in force.
    pub(super) fn reload(&mut self) -> Result<String> {
        let Some(path) = self.note.config.clone() else {
            bail!(
                "this instance was started without a configuration file: headworks run --config FILE …"
            );
        };
        let (config, profile) = match self.read_files(&path) {
            Ok(files) => files,
            Err(error) => {
                self.config_error = Some(error.to_string());
                bail!("{error}\nthe configuration from before stays in force")
            }
        };
        apply_config(&self.region, &config, self.note.extra_port, &profile.bypass);
        self.config_error = None;
        self.slo.configure(weights_of(&config));
        self.serve_metrics(config.metrics);
        match &self.metrics_error {
            None => Ok(format!("{} is in force", path.display())),
            Some(error) => bail!(
                "{} is in force (settings, classes, weights and rules), but for its `metrics`:\n  {error}",
                path.display()
            ),
        }
    }
}
