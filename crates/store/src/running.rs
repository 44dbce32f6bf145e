//! What the threads of a store share: its state, its seconds, the changes of its configuration.

use crate::apps::{App, Goal, Key};
use crate::config::{self, Config};
use crate::control::{
    AppStatus, DeviceStatus, Request, Response, SlowRequest, Status, VolumeStatus,
};
use crate::error::StoreError;
use crate::front::{Front, Offer, Opened};
use crate::governor::{Fares, Governor, Orders};
use crate::ledger::{Ledger, Slow};
use crate::membership::{self, Membership, Seen};
use crate::note::Post;
use crate::processors::Processors;
use crate::tls;
use crate::volumes::{Volumes, Wanted};
use crate::who;
use headworks_policy::learn::WINDOW;
use headworks_policy::learn::device::ORDINARY;
use headworks_volume::clock;
use headworks_volume::nbd::Stop;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines that status shows of what was said.
const SAID_MAX: usize = 50;

/// How long connections of a volume that is removed may keep it.
const LEAVE: Duration = Duration::from_secs(30);

/// See the module.
pub struct Running {
    pub(crate) front: Arc<Front>,
    pub(crate) volumes: Volumes,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) governor: Mutex<Governor>,
    /// How it stands with other stores of its name.
    pub(crate) standing: Mutex<Option<String>>,
    /// Targets that etcd has, as of the last look.
    pub(crate) decreed: Mutex<BTreeMap<String, f64>>,
    pub(crate) processors: Mutex<Processors>,
    pub(crate) said: Mutex<VecDeque<String>>,
    /// One reload at a time.
    pub(crate) changing: Mutex<()>,
    pub(crate) path: PathBuf,
    pub(crate) stop: Stop,
    pub(crate) ending: AtomicBool,
    pub(crate) started: Instant,
    pub(crate) depth: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// The state in figures.
    pub fn status(&self) -> Status {
        let Offer { config, volumes, .. } = self.front.offer();
        let counts = self.stop.counts();
        let page = self.ledger.page(clock::now());
        let governor = lock(&self.governor);
        let app = |app: &Arc<App>| {
            let (tally, about) = (page.of(app.cause), app.about());
            let belief = governor.belief(app.cause);
            let (requests, bytes) = app.budget.load();
            let estimate = belief.map(|belief| &belief.owner.estimate);
            AppStatus {
                goal: goal_text(about.goal),
                name: about.name,
                volume: about.volume,
                client: about.client,
                fares: belief.map_or(Fares::Unknown, |belief| belief.fares.clone()),
                need: estimate.map_or(0.0, |estimate| estimate.need()),
                need_error: estimate.map_or(0.0, |estimate| estimate.error()),
                need_windows: estimate.map_or(0, |estimate| estimate.age()),
                changes: estimate.map_or(0, |estimate| estimate.changes),
                limit: about.limit,
                share: governor.share(app.cause),
                promise: belief.map_or(1.0, |belief| belief.promise),
                last: belief.and_then(|belief| belief.windows.back()).copied().unwrap_or_default(),
                requests,
                bytes,
                ios: tally.ios,
                bytes_total: tally.bytes,
                waited_s: tally.waited_ns as f64 / 1e9,
                service_s: tally.service_ns as f64 / 1e9,
            }
        };
        let apps = self.front.apps.list();
        Status {
            pid: std::process::id(),
            up_s: self.started.elapsed().as_secs(),
            listen: config.as_ref().map_or_else(Vec::new, |config| config.listen.clone()),
            connections: counts.connections,
            connections_max: config.as_ref().map_or(0, |config| config.connections),
            turned_away: counts.turned_away,
            refused: self.front.notices.refused(),
            failed: self.front.notices.failures(),
            scheduler: config.map_or_else(String::new, |config| config.device.scheduler.clone()),
            depth: self.depth,
            best_effort_depth: (f64::from(self.depth) * governor.best_effort()).round() as u32,
            best_effort_pace: governor.pace(),
            epoch: governor.epoch(),
            device: device_status(&governor),
            processors_short: governor
                .are_processors_short()
                .then(|| lock(&self.processors).times()),
            membership: lock(&self.standing).clone(),
            volumes: volumes
                .iter()
                .map(|opened| VolumeStatus {
                    name: opened.name.clone(),
                    path: opened.path.clone(),
                    size_bytes: opened.size,
                    trouble: self.volumes.trouble(&opened.name),
                })
                .collect(),
            applications: apps.iter().filter(|app| app.is_there()).map(app).collect(),
            said: lock(&self.said).iter().cloned().collect(),
        }
    }

    /// Does what the control socket asks.
    pub fn answer(&self, request: Request) -> Response {
        let unknown = |name: &str| {
            Response::Error(format!(
                "there is no application `{name}`\n  see which there are: headworks store status"
            ))
        };
        match request {
            Request::Status => Response::Status(Box::new(self.status())),
            Request::Reload => match self.reload() {
                Ok(done) => Response::Done(done),
                Err(error) => Response::Error(error.to_string()),
            },
            Request::Post { application, achieved, offered, age_ms } => {
                let Some(app) = self.front.apps.by_name(&application) else {
                    return unknown(&application);
                };
                let post = Post { application, achieved, offered, ask: None, age_ms };
                self.front.desk.post(app.cause, post);
                Response::Done("noted".to_owned())
            }
            Request::Set { application, key, number } => {
                let Some(app) = self.front.apps.by_name(&application) else {
                    return unknown(&application);
                };
                if let Some(words) = self.decreed(&application, key) {
                    return Response::Error(format!("{application}: {words}"));
                }
                match app.set_by_hand(key, number) {
                    Ok(()) => {
                        self.at_once();
                        Response::Done(format!("{application}: {} {number}", key.name()))
                    }
                    Err(why) => Response::Error(format!("{application}: {}: {why}", key.name())),
                }
            }
            Request::Windows { application } => {
                let Some(app) = self.front.apps.by_name(&application) else {
                    return unknown(&application);
                };
                let governor = lock(&self.governor);
                let windows = governor.belief(app.cause).map(|belief| belief.windows.clone());
                Response::Windows(windows.unwrap_or_default().into())
            }
            Request::Slow => Response::Slow(self.slow()),
        }
    }

    fn slow(&self) -> Vec<SlowRequest> {
        let now = clock::now();
        let apps = self.front.apps.list();
        let governor = lock(&self.governor);
        let name = |cause: u32| {
            let app = apps.iter().find(|app| app.cause == cause);
            app.map_or_else(|| "unknown".to_owned(), |app| app.about().name)
        };
        let one = |slow: &Slow| SlowRequest {
            ago_s: now.since(slow.at).0 as f64 / 1e9,
            application: name(slow.cause),
            operation: format!("{:?}", slow.operation).to_lowercase(),
            bytes: slow.bytes,
            waited_ms: slow.waited.0 as f64 / 1e6,
            behind: slow.behind.map(|(cause, part)| (name(cause), part)),
            share: governor.share(slow.cause),
        };
        self.ledger.slow().iter().map(one).collect()
    }

    /// Reads the configuration again. Volumes come and go, others go on. A mistake changes nothing.
    ///
    /// # Errors
    /// What is wrong.
    pub fn reload(&self) -> Result<String, StoreError> {
        let _one = lock(&self.changing);
        let config = config::load(&self.path)?;
        let before = self.front.offer();
        if let Some(old) = &before.config
            && let Some(what) = fixed(old, &config)
        {
            return Err(StoreError::Fixed(what));
        }
        let was_open = before.config.as_ref().is_some_and(|old| old.names_users());
        let config = Arc::new(config);
        let done = self.take(Arc::clone(&config), &before)?;
        who::open_sockets(&config, was_open);
        Ok(done)
    }

    /// Takes a configuration: opens what is new, changes what is offered, then closes the rest.
    pub(crate) fn take(&self, config: Arc<Config>, before: &Offer) -> Result<String, StoreError> {
        let tls = match &config.tls {
            Some(files) => Some(tls::server(&files.certificate, &files.key, &files.clients)?),
            None => None,
        };
        let old = before.config.as_deref();
        let opened = self.volumes.open_new(&config, old, &before.volumes)?;
        // From here on nothing fails.
        let (volumes, added, gone) = self.volumes.place(opened, &before.volumes);
        let count = volumes.len();
        let same = |volume: &config::Volume| {
            let known = old.and_then(|old| old.volumes.iter().find(|v| v.name == volume.name));
            known == Some(volume) && old.is_some_and(|old| old.clients == config.clients)
        };
        let changed: Vec<String> =
            config.volumes.iter().filter(|v| !same(v)).map(|v| v.name.clone()).collect();
        self.front.apps.set(&config, self.depth);
        *self.front.offer.write().unwrap_or_else(PoisonError::into_inner) =
            Offer { config: Some(config), volumes, tls };
        self.at_once();
        // Who has a volume open as it was comes again, if it still may.
        let ends = |name: &str| {
            changed.iter().any(|changed| changed == name)
                || gone.iter().any(|(opened, _)| opened.name == name)
        };
        let in_time = self.stop.end_exports(ends, LEAVE);
        self.volumes.close(&gone);
        let late = if in_time { "" } else { "; requests of a removed volume hang at its device" };
        let sizes = new_sizes(&gone, &self.front.offer().volumes);
        Ok(format!(
            "{count} volumes are served, {added} opened, {} closed{sizes}{late}",
            gone.len()
        ))
    }

    /// Looks at etcd every few seconds, until the end.
    pub(crate) fn membership(&self, mut membership: Membership) {
        let (mut before, mut wrong) = (None, Vec::new());
        let mut next = Instant::now();
        while !self.ending.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(50));
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + Duration::from_secs(membership::LEASE_S / 4);
            let looked =
                membership.look().map(|seen| self.heed(&seen, &mut wrong)).and_then(|()| {
                    let learned = lock(&self.governor).learned(&self.front.apps.list());
                    membership.keep(&learned)
                });
            let words = match looked {
                Ok(()) if membership.holds() => "it holds the lease of its name".to_owned(),
                Ok(()) => "another store of its name holds the lease".to_owned(),
                Err(error) => format!("etcd cannot be reached: {error}"),
            };
            if before.as_ref() != Some(&words) {
                self.say(words.clone());
                before = Some(words.clone());
            }
            *lock(&self.standing) = Some(words);
        }
        membership.leave();
    }

    /// Takes what etcd has. `before` is what was wrong with it at the last look.
    fn heed(&self, seen: &Seen, before: &mut Vec<String>) {
        let apps = self.front.apps.list();
        let (mut changed, mut wrong) = (false, Vec::new());
        let mut decreed = BTreeMap::new();
        for (name, target) in &seen.targets {
            let app = self.front.apps.by_name(name);
            match (target, app.map(|app| (app.about().goal, app))) {
                (Err(why), _) => wrong.push(format!("the target of `{name}` in etcd: {why}")),
                (Ok(_), None) => wrong.push(format!(
                    "etcd has a target for `{name}`, which is no application of this store"
                )),
                (Ok(target), Some((Goal::Rate(_) | Goal::LatencyMs(_), app))) => {
                    decreed.insert(name.clone(), *target);
                    if app.retarget(*target) {
                        changed = true;
                        self.say(format!("{name}: its target is {target} from now on, by etcd"));
                    }
                }
                (Ok(target), Some(_)) => wrong.push(format!(
                    "etcd has the target {target} for `{name}`, which has none here\n  write \
                     `target` or `latency_ms` into its [[application]]"
                )),
            }
        }
        let decreed = std::mem::replace(&mut *lock(&self.decreed), decreed);
        for name in decreed.keys().filter(|name| !seen.targets.contains_key(*name)) {
            let Some((app, target)) = self.written(name) else { continue };
            if app.retarget(target) {
                changed = true;
                self.say(format!(
                    "{name}: etcd has no target for it any more: {target} by its file"
                ));
            }
        }
        for words in wrong.iter().filter(|words| !before.contains(words)) {
            self.say(words.clone());
        }
        *before = wrong;
        if let Some(learned) = &seen.learned {
            lock(&self.governor).take_over(clock::now(), &apps, learned);
        }
        if changed {
            self.at_once();
        }
    }

    /// An application, and the target that the configuration has for it.
    fn written(&self, name: &str) -> Option<(Arc<App>, f64)> {
        let config = self.front.offer().config?;
        let written = config.applications.iter().find(|app| app.name == name)?;
        Some((self.front.apps.by_name(name)?, written.target.or(written.latency_ms)?))
    }

    /// Why a target that is set by hand would not last.
    fn decreed(&self, application: &str, key: Key) -> Option<String> {
        let target = *lock(&self.decreed).get(application)?;
        let name = self.front.offer().config.as_ref()?.etcd.as_ref()?.name.clone();
        let place = membership::key(&name, &format!("targets/{application}"));
        let goal = !matches!(key, Key::Weight | Key::Limit);
        goal.then(|| {
            format!(
                "etcd has the target {target} for it, which would be back in seconds\n  change it \
                 there: etcdctl put {place} NUMBER; or take it away: etcdctl del {place}"
            )
        })
    }

    fn say(&self, words: String) {
        eprintln!("headworks-store: {words}");
        let mut said = lock(&self.said);
        if said.len() == SAID_MAX {
            said.pop_front();
        }
        said.push_back(words);
    }

    /// A window is over.
    pub(crate) fn second(&self) {
        let now = clock::now();
        let page = self.ledger.page(now);
        self.ledger.mark();
        let posts = self.front.desk.take();
        let seconds = WINDOW.0 as f64 / 1e9;
        let short = lock(&self.processors).are_short(seconds);
        self.govern(|governor, apps| {
            governor.starve(short);
            let orders = governor.window(now, page, apps, posts);
            if let Some(prices) = governor.prices() {
                self.ledger.set_prices(prices);
            }
            orders
        });
    }

    /// What is set by hand counts from now on.
    pub(crate) fn at_once(&self) {
        self.govern(|governor, apps| governor.at_once(clock::now(), apps));
    }

    /// Has the governor decide, and the queue follow, in the same order.
    fn govern(&self, decide: impl FnOnce(&mut Governor, &[Arc<App>]) -> Orders) {
        let mut governor = lock(&self.governor);
        let apps = self.front.apps.list();
        let orders = decide(&mut governor, &apps);
        for (cause, share) in orders.shares {
            self.front.engine.set_share(cause, Some(share));
        }
        for app in apps.iter().filter(|app| !app.is_there()) {
            self.front.engine.set_share(app.cause, None);
        }
        self.front.engine.set_depth(self.depth, orders.best_effort);
        self.front.engine.set_pace(orders.pace);
        self.front.desk.grant(governor.epoch(), orders.grants);
        drop(governor);
        for words in orders.said {
            self.say(words);
        }
    }

    /// Seconds until the end.
    pub(crate) fn seconds(&self) {
        let mut next = Instant::now();
        let (mut ticks, mut kept) = (0u64, None);
        while !self.ending.load(Ordering::Acquire) {
            next += Duration::from_nanos(WINDOW.0);
            while let left = next.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !self.ending.load(Ordering::Acquire)
            {
                std::thread::sleep(left.min(Duration::from_millis(50)));
            }
            if next.elapsed() > Duration::from_secs(1) {
                // The machine stood still: the windows that are missed are one.
                next = Instant::now();
            }
            self.second();
            ticks += 1;
            if ticks % 10 == 1 {
                let trouble = self.keep().err();
                if let Some(words) = trouble.clone().filter(|_| trouble != kept) {
                    self.say(words);
                }
                kept = trouble;
            }
        }
        let _ = self.keep();
    }

    pub(crate) fn state_file(&self) -> Option<PathBuf> {
        let state = self.front.offer().config?.state.clone()?;
        Some(state.join("learned.json"))
    }

    /// Writes what was learned, so that the next start begins with it. Without it, that learns
    /// again.
    fn keep(&self) -> Result<(), String> {
        let Some(file) = self.state_file() else { return Ok(()) };
        let learned = lock(&self.governor).learned(&self.front.apps.list());
        let Ok(text) = serde_json::to_vec_pretty(&learned) else { return Ok(()) };
        let draft = file.with_extension("new");
        let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &file));
        written.map_err(|error| {
            format!(
                "what is learned is not kept: {}: {error}\n  headworks store doctor says more",
                file.display()
            )
        })
    }
}

/// Which volumes have another size from now on.
fn new_sizes(gone: &[Wanted], now: &[Opened]) -> String {
    let one = |(old, _): &Wanted| {
        let new = now.iter().find(|new| new.path == old.path && new.path != "memory")?;
        let words = format!(
            "; {} has {} bytes: clients see it when they connect again",
            new.name, new.size
        );
        (new.size != old.size).then_some(words)
    };
    gone.iter().filter_map(one).collect()
}

/// What differs that a running store cannot follow.
fn fixed(old: &Config, new: &Config) -> Option<&'static str> {
    let device = |config: &Config| config::Device { memory_mib: 0, ..config.device.clone() };
    let differs = [
        ("`listen` and `control`", old.listen != new.listen || old.control() != new.control()),
        ("`connections`", old.connections != new.connections),
        ("`controller`", old.controller != new.controller),
        ("`metrics`", old.metrics != new.metrics),
        ("[etcd]", old.etcd != new.etcd),
        ("[device], but for memory_mib,", device(old) != device(new)),
        ("`cache` of a volume", new.volumes.iter().any(|volume| other_cache(old, volume))),
    ];
    differs.into_iter().find(|(_, differs)| *differs).map(|(what, _)| what)
}

fn other_cache(old: &Config, volume: &config::Volume) -> bool {
    let is = |other: &&config::Volume| other.name == volume.name && other.path == volume.path;
    old.volumes.iter().find(is).is_some_and(|other| other.cache != volume.cache)
}

fn device_status(governor: &Governor) -> DeviceStatus {
    let device = governor.device();
    DeviceStatus {
        busy: governor.busy(),
        price_us: device.prices().map(|price| price.of(ORDINARY) / 1e3),
        learned: device.is_learned(),
    }
}

fn goal_text(goal: Goal) -> String {
    match goal {
        Goal::BestEffort => "best effort".to_owned(),
        Goal::Rate(target) => format!("{target}/s"),
        Goal::LatencyMs(target) => format!("{target} ms"),
        Goal::Share(share) => format!("{:.0} % by hand", 100.0 * share),
    }
}
