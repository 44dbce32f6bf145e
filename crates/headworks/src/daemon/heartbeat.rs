//! Heartbeat, stall detector, and the repairs that are made once a second.

use super::STOP;
use super::reload::reclassify;
use super::{saturation, used};
use headworks_policy::Nanos;
use headworks_policy::permit::Long;
use headworks_policy::stall::{Observation, StallDetector};
use headworks_region::control::PERMITS;
use headworks_region::layout::Counter;
use headworks_region::lock::thread_exists;
use headworks_region::{Mapping, Pause, State, clock};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time between two heartbeats, and between two checks of the stall detector.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(50);

/// The same while sessions are queued: time between two checks for unused permits.
const HEARTBEAT_INTERVAL_QUEUED: Duration = Duration::from_millis(10);

/// Requests of sessions that ended are forgotten so long after the first look.
const FORGOTTEN_AFTER: Nanos = Nanos::from_millis(60_000);

/// Most sessions that the stall detector admits beyond P.
const BONUS_MAX: u32 = 512;

/// Heartbeat and stall detector, on a separate thread, so that nothing else in the daemon can delay
/// them.
pub(super) fn send_heartbeats(region: Mapping) {
    let settings = region.control.settings();
    let mut detector = StallDetector::new(settings.stall, BONUS_MAX);
    let mut repaired_at = Nanos(0);
    let mut seen = [0; PERMITS];
    let mut long = Long::by(None);
    let mut looks = used::Looks::default();
    let mut saturation = saturation::Watch::new(crate::config::cores());
    while !STOP.load(Ordering::Relaxed) {
        let now = clock::now();
        region.heartbeat.alive_ns.store(now.0, Ordering::Relaxed);
        detector.set_timeout(region.control.settings().stall);
        let stalls = detector.stalls();
        let bonus = detector.observe(Observation {
            now,
            completed: region.completed(),
            waiting: region.waiting(),
        });
        if detector.stalls() > stalls {
            region.count(Counter::Stalls);
        }
        if bonus != region.control.bonus() {
            region.set_bonus(bonus);
        }
        region.dispatch_all();
        saturation.tick(&region, now);
        region.lend_unused(now, long, |session, slot| looks.used(session, slot, now));
        if now.since(repaired_at) > Nanos::from_millis(1_000) {
            repaired_at = now;
            reclassify(&region);
            release_dead_sessions(&region);
            region.reclaim(&mut seen);
            looks.forget(now.since(FORGOTTEN_AFTER));
            long = Long::by(region.usual_run());
        }
        std::thread::sleep(if region.pending() > 0 {
            HEARTBEAT_INTERVAL_QUEUED
        } else {
            HEARTBEAT_INTERVAL
        });
    }
}

/// A thread that has ended cannot give back its session's permit. A process that has ended gives
/// nothing back at all.
fn release_dead_sessions(region: &Mapping) {
    for session in 0..region.high_water() {
        let Some(slot) = region.session(session) else { break };
        let process = slot.pid.load(Ordering::Relaxed);
        let thread = slot.thread.load(Ordering::Relaxed);
        // Free slots too: a process may end while it claims one.
        if process != 0 && !thread_exists(process) {
            region.release_dead_session(session, process);
        } else if thread != 0
            && matches!(slot.state(), State::Running | State::Owed)
            && !thread_exists(thread)
            && region.lend(session, Pause::None)
        {
            region.count(Counter::Reaped);
        }
    }
}
