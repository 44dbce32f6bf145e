//! Notes between a client of ours and the store, on the same connection as its requests: what an
//! application achieved or asks for, and what it is granted.
//!
//! A note is a state and not a step. It may be repeated or lost, and two may say the same.

use crate::apps::App;
use crate::number;
use headworks_policy::Nanos;
use headworks_volume::clock;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// From a client, once a second at most.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Its number of the window.
    pub window: u64,
    /// Names of applications by the tags that its cookies carry.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<u16, String>,
    /// What applications achieved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub posts: Vec<Post>,
}

/// What an application achieved in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Post {
    /// Its name.
    pub application: String,
    /// Transactions a second, or milliseconds of one, as its target has it. None without demand.
    #[serde(deserialize_with = "number::achieved")]
    pub achieved: Option<f64>,
    /// Transactions a second that were asked of it, if that is known.
    #[serde(deserialize_with = "number::achieved", skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
    /// The share that its owner at the host asks for. None leaves that to the store.
    #[serde(deserialize_with = "number::ask")]
    pub ask: Option<f64>,
    /// How long ago the window was, in milliseconds.
    #[serde(deserialize_with = "number::age_ms")]
    pub age_ms: u64,
}

/// To a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The window that it answers.
    pub window: u64,
    /// How often shares have changed.
    pub epoch: u64,
    /// Of each application of the connection.
    pub grants: Vec<Grant>,
}

/// What an application is granted, and how it fared in the last window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// Its name.
    pub application: String,
    /// Its share.
    pub share: f64,
    /// What it was given of its ask.
    pub promise: f64,
    /// Service that it had, in units of shares.
    pub used: f64,
    /// It waited mostly in the scheduler.
    pub held: bool,
    /// Most of its service was given while no other waited.
    pub lent: bool,
    /// Mean wait in the scheduler, in microseconds.
    pub wait_us: f64,
    /// Mean time with the device, in microseconds.
    pub service_us: f64,
    /// Part of the device's depth that best effort may have.
    pub depth: f64,
}

#[derive(Default)]
struct Inbox {
    posts: BTreeMap<u32, (Post, Nanos)>,
    grants: BTreeMap<u32, Grant>,
    epoch: u64,
}

/// Where notes are left, and answers are found.
#[derive(Default)]
pub struct Desk(Mutex<Inbox>);

impl Desk {
    /// A client's note came. `own` says which names are its own; `apps` are those that it hears of.
    pub fn told(
        &self,
        told: &Told,
        own: impl Fn(&str) -> Option<Arc<App>>,
        apps: impl Iterator<Item = Arc<App>>,
    ) -> Answer {
        for post in &told.posts {
            if let Some(app) = own(&post.application) {
                self.post(app.cause, post.clone());
            }
        }
        let inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let grants = apps.filter_map(|app| inbox.grants.get(&app.cause).cloned()).collect();
        Answer { window: told.window, epoch: inbox.epoch, grants }
    }

    /// A post for this application; it replaces one that was not taken yet.
    pub fn post(&self, cause: u32, post: Post) {
        let mut inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inbox.posts.insert(cause, (post, clock::now()));
    }

    /// Takes the posts of the window that is over, each with when it came.
    pub fn take(&self) -> BTreeMap<u32, (Post, Nanos)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).posts)
    }

    /// What is granted from now on.
    pub fn grant(&self, epoch: u64, grants: BTreeMap<u32, Grant>) {
        let mut inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (inbox.epoch, inbox.grants) = (epoch, grants);
    }
}
