//! The life of a session that owns a lock or a transaction: it is never held while it does, and
//! like all others afterwards.

use headworks_rig::Client;

use crate::common::{Gate, User};
use crate::gated::state;

/// What a user takes, does with it, and how it gives it back.
pub struct Ownership<'a> {
    pub name: &'a str,
    /// What the status says that it holds.
    pub holding: &'a str,
    pub take: &'a dyn Fn(&mut Client),
    pub use_it: &'a dyn Fn(&mut Client),
    pub give_back: &'a dyn Fn(&mut Client),
}

/// Runs statements that have to succeed.
pub fn run(statements: &'static [&'static str]) -> impl Fn(&mut Client) {
    move |client| {
        for sql in statements {
            if let Err(error) = client.query(sql) {
                panic!("{sql}: {error}");
            }
        }
    }
}

/// The gate has one permit, which is lent when its owner idles. Another session takes it and keeps
/// it. The owner of a transaction or a lock goes on all the same, while a third session is held.
/// Once the owner has given all back, it is held too.
pub fn never_held_until_given_back(gate: &Gate, ownership: &Ownership<'_>) {
    let what = ownership.name;
    let mut owner = gate.user("owner");
    (ownership.take)(&mut owner);
    gate.wait_state(&owner, state::THINKING);
    let holding = gate.status().holding(&owner.name);
    assert!(
        holding.contains(ownership.holding),
        "{what}: the status says that it holds `{holding}`"
    );

    let occupant = gate.occupy();
    let mut plain = gate.user("plain");
    plain.send_query("SELECT 7").unwrap();
    assert!(gate.is_held(&plain), "{what}: a third user is held");

    (ownership.use_it)(&mut owner);
    assert!(gate.waits(&plain), "{what}: the owner was answered before the place came free");
    (ownership.give_back)(&mut owner);
    assert!(gate.waits(&plain), "{what}: the owner was let go before the place came free");
    gate.wait(&format!("{what}: the owner owns nothing"), |status| {
        status.state(&owner.name) == state::IDLE && status.holding(&owner.name).is_empty()
    });

    owner.send_query("SELECT 8").unwrap();
    assert!(gate.is_held(&owner), "{what}: it is held afterwards");
    gate.release(occupant);
    assert_eq!(plain.value(), "7", "{what}");
    assert_eq!(owner.value(), "8", "{what}");
    leave([plain, owner]);
    gate.wait_empty();
}

/// All users say goodbye.
pub fn leave(users: impl IntoIterator<Item = User>) {
    for user in users {
        user.quit();
    }
}
