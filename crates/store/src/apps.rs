//! Applications: whose requests are whose. A number is bound to a volume and a client, so that no
//! client can have its requests counted as another's.

use crate::admission::{Budget, Limits};
use crate::config::{self, Config};
use crate::number::Number;
use headworks_policy::block::REQUESTS;
use headworks_policy::learn::Application;
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What an application is to have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// A part of what is left.
    BestEffort,
    /// So many transactions a second, or of whatever is posted.
    Rate(f64),
    /// A transaction in so many milliseconds.
    LatencyMs(f64),
    /// A share set by hand.
    Share(f64),
}

impl Goal {
    /// Whether its number can be.
    pub fn is_sound(self) -> bool {
        let (number, found) = match self {
            Goal::BestEffort => return true,
            Goal::Rate(target) => (Number::Target, target),
            Goal::LatencyMs(target) => (Number::LatencyMs, target),
            Goal::Share(share) => (Number::Share, share),
        };
        number.check(found).is_ok()
    }

    /// Deviation from target of what was achieved.
    pub fn dft(self, achieved: f64) -> Option<f64> {
        match self {
            Goal::Rate(target) => Some(achieved / target - 1.0),
            Goal::LatencyMs(target) if achieved > 0.0 => Some(target / achieved - 1.0),
            Goal::LatencyMs(_) | Goal::BestEffort | Goal::Share(_) => None,
        }
    }
}

/// What can be set of an application while the store runs, as the configuration names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// Instead of what it was to have.
    Target,
    /// Instead of what it was to have.
    LatencyMs,
    /// Instead of what it was to have.
    Share,
    /// Beside it.
    Weight,
    /// Beside it.
    Limit,
}

impl Key {
    /// All of them.
    pub const ALL: [Key; 5] = [Key::Target, Key::LatencyMs, Key::Share, Key::Weight, Key::Limit];

    /// As in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Key::Target => "target",
            Key::LatencyMs => "latency_ms",
            Key::Share => "share",
            Key::Weight => "weight",
            Key::Limit => "limit",
        }
    }
}

impl From<Key> for Number {
    fn from(key: Key) -> Number {
        match key {
            Key::Target => Number::Target,
            Key::LatencyMs => Number::LatencyMs,
            Key::Share => Number::Share,
            Key::Weight => Number::Weight,
            Key::Limit => Number::Limit,
        }
    }
}

/// What is known of an application.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Its name.
    pub name: String,
    /// The volume that its requests are for.
    pub volume: String,
    /// The client that they are of; none means any.
    pub client: Option<String>,
    /// Only what our client marks is of it.
    pub tagged: bool,
    /// What it is to have.
    pub goal: Goal,
    /// See [`config::Application::weight`].
    pub weight: f64,
    /// See [`config::Application::limit`].
    pub limit: f64,
}

impl About {
    fn of(application: &config::Application) -> About {
        let goal = match (application.target, application.latency_ms, application.share) {
            (Some(target), _, _) => Goal::Rate(target),
            (_, Some(latency), _) => Goal::LatencyMs(latency),
            (_, _, Some(share)) => Goal::Share(share),
            _ => Goal::BestEffort,
        };
        About {
            name: application.name.clone(),
            volume: application.volume.clone(),
            client: application.client.clone(),
            tagged: application.tagged,
            goal,
            weight: application.weight,
            limit: application.limit.unwrap_or(usual_limit(goal)),
        }
    }

    fn usual(volume: &str, client: Option<&str>) -> About {
        About {
            name: client.map_or(volume.to_owned(), |client| format!("{volume}/{client}")),
            volume: volume.to_owned(),
            client: client.map(str::to_owned),
            tagged: false,
            goal: Goal::BestEffort,
            weight: 1.0,
            limit: 1.0,
        }
    }

    /// Whether it is among those for this volume and client.
    fn is_for(&self, volume: &str, client: &str) -> bool {
        self.volume == volume && self.client.as_ref().is_none_or(|own| own == client)
    }

    /// As the store's books have it.
    pub fn application(&self) -> Application {
        let target = self.goal != Goal::BestEffort;
        Application { host: 0, target, weight: self.weight, limit: self.limit }
    }
}

/// What is posted may be false: a target without a limit could have everything.
fn usual_limit(goal: Goal) -> f64 {
    match goal {
        Goal::BestEffort => 1.0,
        Goal::Share(share) => share,
        Goal::Rate(_) | Goal::LatencyMs(_) => 0.9,
    }
}

/// An application.
pub struct App {
    /// Its number: the cause of its requests.
    pub cause: u32,
    /// Its requests in flight.
    pub budget: Arc<Budget>,
    /// Its answers that have not gone out, beyond a little for each connection.
    pub answers: Arc<Budget>,
    about: Mutex<(About, bool)>,
}

impl App {
    /// What is known of it.
    pub fn about(&self) -> About {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// The target is this number from now on, if it has one. Says whether that is another.
    pub fn retarget(&self, number: f64) -> bool {
        let mut about = self.about.lock().unwrap_or_else(PoisonError::into_inner);
        let goal = match about.0.goal {
            Goal::Rate(_) => Goal::Rate(number),
            Goal::LatencyMs(_) => Goal::LatencyMs(number),
            other => other,
        };
        std::mem::replace(&mut about.0.goal, goal) != goal
    }

    /// One of its numbers is this from now on, until the configuration is read again.
    ///
    /// # Errors
    /// The number cannot be.
    pub fn set_by_hand(&self, key: Key, number: f64) -> Result<(), String> {
        let number = Number::from(key).check(number)?;
        let mut about = self.about.lock().unwrap_or_else(PoisonError::into_inner);
        let before = about.0.goal;
        let goal = match key {
            Key::Target => Goal::Rate(number),
            Key::LatencyMs => Goal::LatencyMs(number),
            Key::Share => Goal::Share(number),
            Key::Weight => {
                about.0.weight = number;
                return Ok(());
            }
            Key::Limit => {
                about.0.limit = number;
                return Ok(());
            }
        };
        // A limit that was not written follows what it is to have.
        if about.0.limit == usual_limit(before) {
            about.0.limit = usual_limit(goal);
        }
        about.0.goal = goal;
        Ok(())
    }

    /// Whether the configuration still has it.
    pub fn is_there(&self) -> bool {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    fn set(&self, about: About, there: bool) {
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = (about, there);
    }
}

/// All of them. One keeps its number for as long as the store runs.
pub struct Apps {
    limits: Arc<Limits>,
    answers: Arc<Limits>,
    list: RwLock<Vec<Arc<App>>>,
}

impl Default for Apps {
    fn default() -> Self {
        let none = || Arc::new(Limits::new(1, 0));
        Apps { limits: none(), answers: none(), list: RwLock::default() }
    }
}

impl Apps {
    /// Those of a configuration, from now on. `depth` is the device's.
    pub fn set(&self, config: &Config, depth: u32) {
        let wanted = wanted(config);
        // Twice the device's depth keeps it busy. All together must fit into the queue.
        let fair = REQUESTS / wanted.len().max(1);
        let requests = (2 * depth).min(fair as u32).max(2);
        let bytes = u64::from(config.device.memory_mib) << 20;
        self.limits.set(requests, bytes);
        self.answers.set(u32::MAX, bytes);
        let mut list = self.list.write().unwrap_or_else(PoisonError::into_inner);
        for app in list.iter() {
            let about = app.about();
            match wanted.iter().find(|wanted| wanted.name == about.name) {
                Some(wanted) => app.set(wanted.clone(), true),
                None => app.set(about, false),
            }
        }
        for about in wanted {
            if !list.iter().any(|app| app.about().name == about.name) {
                // Numbers begin at one: zero stands for no one known.
                let cause = list.len() as u32 + 1;
                let budget = Arc::new(Budget::new(Arc::clone(&self.limits)));
                let answers = Arc::new(Budget::new(Arc::clone(&self.answers)));
                let about = Mutex::new((about, true));
                list.push(Arc::new(App { cause, budget, answers, about }));
            }
        }
    }

    /// All that there are, in the order of their numbers.
    pub fn list(&self) -> Vec<Arc<App>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whose requests of this client to this volume are, without a tag.
    pub fn usual(&self, volume: &str, client: &str) -> Option<Arc<App>> {
        self.find(|about| !about.tagged && about.is_for(volume, client))
    }

    /// The application of this name, if this client's requests to this volume may be of it.
    pub fn named(&self, name: &str, volume: &str, client: &str) -> Option<Arc<App>> {
        self.find(|about| about.name == name && about.is_for(volume, client))
    }

    /// The application of this name.
    pub fn by_name(&self, name: &str) -> Option<Arc<App>> {
        self.find(|about| about.name == name)
    }

    fn find(&self, is: impl Fn(&About) -> bool) -> Option<Arc<App>> {
        let list = self.list.read().unwrap_or_else(PoisonError::into_inner);
        // Of several, the one for this client alone.
        let mut found: Vec<_> =
            list.iter().filter(|app| app.is_there() && is(&app.about())).collect();
        found.sort_by_key(|app| app.about().client.is_none());
        found.first().map(|app| Arc::clone(app))
    }
}

/// Those that are named, and one for each pair of volume and client that has none.
fn wanted(config: &Config) -> Vec<About> {
    let mut wanted: Vec<About> = config.applications.iter().map(About::of).collect();
    for volume in &config.volumes {
        let all: Vec<Option<&str>> = match (&volume.clients, config.clients.is_empty()) {
            (_, true) => vec![None],
            (Some(clients), _) => clients.iter().map(|client| Some(client.as_str())).collect(),
            (None, _) => config.clients.iter().map(|client| Some(client.name.as_str())).collect(),
        };
        for client in all {
            let has = |about: &About| {
                !about.tagged && about.is_for(&volume.name, client.unwrap_or_default())
            };
            if !wanted.iter().any(has) {
                wanted.push(About::usual(&volume.name, client));
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(more: &str) -> Config {
        let text = format!(
            "listen = [\"unix:/x\"]\n\
             [[client]]\nname = \"a\"\nuid = 1\n[[client]]\nname = \"b\"\nuid = 2\n\
             [[volume]]\nname = \"v\"\npath = \"memory\"\nsize = 512\n{more}"
        );
        config::parse(&text, Path::new("x")).unwrap()
    }

    #[test]
    fn requests_belong_to_whom_the_configuration_says() {
        let apps = Apps::default();
        let application = |name: &str, more: &str| {
            format!("[[application]]\nname = \"{name}\"\nvolume = \"v\"\n{more}\n")
        };
        let own = application("own", "client = \"a\"\ntarget = 5");
        let marked = application("marked", "client = \"b\"\ntagged = true");
        apps.set(&config(&format!("{own}{marked}")), 4);
        let name = |app: Option<Arc<App>>| app.map(|app| app.about().name);
        assert_eq!(name(apps.usual("v", "a")).as_deref(), Some("own"));
        assert_eq!(name(apps.usual("v", "b")).as_deref(), Some("v/b"), "only what is marked");
        assert_eq!(name(apps.named("marked", "v", "b")).as_deref(), Some("marked"));
        assert!(apps.named("own", "v", "b").is_none(), "another client's");
        let number = apps.by_name("own").unwrap().cause;
        apps.set(&config(""), 4);
        assert!(apps.by_name("own").is_none());
        apps.set(&config(&own), 4);
        assert_eq!(apps.by_name("own").unwrap().cause, number);
        assert_eq!(apps.by_name("own").unwrap().about().limit, 0.9);
    }
}
