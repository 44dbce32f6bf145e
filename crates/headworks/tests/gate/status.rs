//! What `headworks status --json` says, as the tests ask for it.

use serde_json::Value;

/// States of a user, in the words of the status.
pub mod state {
    pub const IDLE: &str = "idle";
    pub const WAITING: &str = "waiting";
    pub const INSIDE: &str = "inside";
    pub const PASSING: &str = "passing";
    pub const THINKING: &str = "thinking";
    /// Not there.
    pub const GONE: &str = "";
}

/// One status.
pub struct Status(pub Value);

impl Status {
    /// A number of the whole gate.
    pub fn number(&self, key: &str) -> u64 {
        self.0[key]
            .as_u64()
            .unwrap_or_else(|| panic!("the status has no number `{key}`: {:#}", self.0))
    }

    /// A counter of the gate.
    pub fn counter(&self, name: &str) -> u64 {
        self.0["counters"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("the status has no counter `{name}`: {:#}", self.0))
    }

    /// What a user does; [`state::GONE`] if it is not connected.
    pub fn state(&self, user: &str) -> &str {
        self.user(user).map_or(state::GONE, |user| user["state"].as_str().unwrap())
    }

    /// What a user holds, joined by blanks.
    pub fn holding(&self, user: &str) -> String {
        let names = self.user(user).map(|user| user["holding"].as_array());
        let names = names.flatten().into_iter().flatten();
        names.map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> &Value {
        let classes = self.0["classes"].as_array().unwrap();
        classes
            .iter()
            .find(|class| class["name"] == name)
            .unwrap_or_else(|| panic!("the status has no class `{name}`: {:#}", self.0))
    }

    /// Why a user is in that state.
    pub fn reason(&self, user: &str) -> &str {
        self.user(user).map_or("", |user| user["reason"].as_str().unwrap())
    }

    fn user(&self, user: &str) -> Option<&Value> {
        let connections = self.0["connections"].as_array().unwrap();
        connections.iter().find(|connection| connection["application"] == user)
    }
}
