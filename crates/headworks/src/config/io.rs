//! The `[io]` section: which scheduler governs files, and what it is told of files and threads.

use super::schema::{IoFileSection, IoSection, IoThreadSection, Words};
use super::validate::{number, text};
use headworks_policy::Nanos;
use headworks_policy::split::SplitKind;
use headworks_region::io::{Foreground, IoRegion, IoRule, RULES, Subject};
use headworks_region::text::Text;
use headworks_settings::{Mistake, Place, choice, within};
use toml::Spanned;

/// The checked section.
#[derive(Clone, Debug)]
pub struct IoConfig {
    /// The scheduler.
    pub kind: SplitKind,
    /// Whether the device is a disk, if the file says so.
    pub rotational: Option<bool>,
    /// Longest time without progress; zero for the usual one.
    pub hold_max: Nanos,
    /// Part of the memory that the background may dirty before its writes wait.
    pub background_dirty_percent: u64,
    /// With `rcp`: reads of the background at a time while clients read or commit; zero for the
    /// scheduler's own default.
    pub background_reads: u32,
    /// With `rcp`: whether threads that hold what a client waits for inherit.
    pub inheritance: bool,
    /// Of files and threads; the first that fits decides.
    pub rules: Vec<IoRule>,
}

impl Default for IoConfig {
    fn default() -> Self {
        IoConfig {
            kind: SplitKind::Noop,
            rotational: None,
            hold_max: Nanos(0),
            background_dirty_percent: 1,
            background_reads: 0,
            inheritance: true,
            rules: Vec::new(),
        }
    }
}

impl IoConfig {
    /// Takes the scheduler that a command names, if it names one. Says whether files are to be
    /// scheduled.
    pub fn choose(&mut self, named: Option<SplitKind>) -> bool {
        self.kind = named.unwrap_or(self.kind);
        named.is_some() || self.kind != SplitKind::Noop
    }

    /// Writes it into a region.
    pub fn apply(&self, region: &IoRegion, rotational: bool) {
        region.set_hold_max(self.hold_max);
        set_rules(region, &self.rules);
        region.set_dirty_max(memory_bytes() / 100 * self.background_dirty_percent);
        region.set_reads(self.background_reads);
        region.set_inheritance(self.inheritance);
        region.control.learn_device(self.rotational.is_none());
        region.start(self.kind, self.rotational.unwrap_or(rotational));
    }
}

/// Replaces a region's rules. Those of a profile come last: there may be too many of them.
pub fn set_rules(region: &IoRegion, rules: &[IoRule]) {
    let beyond = rules.len().saturating_sub(RULES);
    if beyond > 0 {
        eprintln!(
            "headworks: {beyond} rules of the profile for files and threads are left out: {RULES} are the most"
        );
    }
    region.set_rules(rules);
}

/// Bytes of memory of this machine, or of the container in which this runs.
fn memory_bytes() -> u64 {
    // The control group at the root has a limit inside a container only.
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(u64::MAX);
    // SAFETY: both have no preconditions.
    let (pages, bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    limit.min(u64::try_from(pages).unwrap_or(0) * u64::try_from(bytes).unwrap_or(0))
}

const DEVICES: [&str; 2] = ["disk", "flash"];

/// Checks the section.
pub(super) fn io(section: &IoSection, place: &Place<'_>) -> Result<IoConfig, Mistake> {
    let kinds = SplitKind::ALL.map(SplitKind::name);
    let kind = choice("scheduler", &section.scheduler, &kinds, place)?;
    let device = choice("device", &section.device, &DEVICES, place)?;
    let hold_max = number("io_hold_ms_max", &section.io_hold_ms_max, place)?;
    let dirty = number("background_dirty_percent", &section.background_dirty_percent, place)?;
    let reads = number("background_reads", &section.background_reads, place)?;
    let mut rules = files(&section.file, place)?;
    rules.extend(threads(&section.thread, place)?);
    if let Some((at, _)) = rules.get(RULES) {
        return Err(place.at(
            *at,
            format!("this section is one too many: {RULES} of files and threads are the most"),
            "Join some: in a pattern, `*` stands for any characters.".to_owned(),
        ));
    }
    Ok(IoConfig {
        kind: kind.map_or(SplitKind::Noop, |at| SplitKind::ALL[at]),
        rotational: device.map(|at| at == 0),
        hold_max: hold_max.map_or(Nanos(0), Nanos::from_millis),
        background_dirty_percent: dirty.unwrap_or(1),
        background_reads: reads.unwrap_or(1) as u32,
        inheritance: section.inheritance.unwrap_or(true),
        rules: rules.into_iter().map(|(_, rule)| rule).collect(),
    })
}

const EMPTY: IoRule = IoRule {
    subject: Subject::Nothing,
    pattern: Text::EMPTY,
    deadline: Nanos(0),
    level: None,
    rate: 0,
    burst: 0,
    foreground: Foreground::ByGate,
    application: Text::EMPTY,
};

/// What sections say of threads, and where each of them begins.
pub(crate) fn threads(
    sections: &[Spanned<IoThreadSection>],
    place: &Place<'_>,
) -> Result<Vec<(usize, IoRule)>, Mistake> {
    let mut rules = Vec::new();
    for thread in sections {
        let at = thread.span().start;
        let thread = thread.get_ref();
        let whom = [
            ("name", &thread.name, Subject::Thread),
            ("class", &thread.class, Subject::Class),
            ("cgroup", &thread.cgroup, Subject::Cgroup),
        ];
        let mut given = whom.into_iter().filter(|(_, value, _)| value.is_some());
        let (key, value, subject) = given.next().unwrap_or(whom[0]);
        if let Some((other, ..)) = given.next() {
            return Err(place.at(
                at,
                format!("this section has `{key}` and `{other}`"),
                "Write a section for each: what a thread uses counts for all sections that fit it."
                    .to_owned(),
            ));
        }
        let pattern = pattern(key, value, at, place)?;
        let level = number("priority", &thread.priority, place)?.map(|level| level as u8);
        let rate = number("bytes_per_s", &thread.bytes_per_s, place)?.unwrap_or(0);
        let burst = number("burst_bytes", &thread.burst_bytes, place)?.unwrap_or(0);
        let foreground = match thread.foreground {
            None => Foreground::ByGate,
            Some(true) => Foreground::Yes,
            Some(false) => Foreground::No,
        };
        let deadline = thread.fsync_ms.as_ref().map(|ms| deadline(ms, place)).transpose()?;
        let deadline = deadline.unwrap_or_default();
        let application = match &thread.application {
            Some(_) => application(&thread.application, at, place)?,
            None => Text::EMPTY,
        };
        let rule =
            IoRule { subject, pattern, deadline, level, rate, burst, foreground, application };
        rules.push((at, rule));
    }
    Ok(rules)
}

/// What sections say of files, and where each of them begins.
pub(crate) fn files(
    sections: &[Spanned<IoFileSection>],
    place: &Place<'_>,
) -> Result<Vec<(usize, IoRule)>, Mistake> {
    let mut rules = Vec::new();
    for file in sections {
        let at = file.span().start;
        let file = file.get_ref();
        let pattern = pattern("path", &file.path, at, place)?;
        let ms = file.fsync_ms.as_ref().ok_or_else(|| {
            place.at(
                at,
                "this section says nothing of its files".to_owned(),
                "Add a deadline: `fsync_ms = 5`.".to_owned(),
            )
        })?;
        let deadline = deadline(ms, place)?;
        rules.push((at, IoRule { subject: Subject::File, pattern, deadline, ..EMPTY }));
    }
    Ok(rules)
}

fn deadline(ms: &Spanned<f64>, place: &Place<'_>) -> Result<Nanos, Mistake> {
    let mend = "Write milliseconds from 0.1 to 600000.";
    let ms = within("fsync_ms", ms, 0.1..=600_000.0, mend, place)?;
    Ok(Nanos((ms * 1e6) as u64))
}

/// The name of an application of a storage server, which has the same rule for names.
fn application(value: &Words, at: usize, place: &Place<'_>) -> Result<Text, Mistake> {
    let name = pattern("application", value, at, place)?;
    if name.bytes().is_empty() || name.bytes().iter().any(|byte| b"\"\\\n".contains(byte)) {
        return Err(place.at(
            at,
            "the `application` is no name of one".to_owned(),
            "Write a name as the store's configuration has it: `application = \"orders\"`."
                .to_owned(),
        ));
    }
    Ok(name)
}

fn pattern(key: &str, value: &Words, at: usize, place: &Place<'_>) -> Result<Text, Mistake> {
    let missing = || {
        place.at(
            at,
            format!("this section has no `{key}`"),
            format!("Write whom it is about: `{key} = \"*\"` fits all."),
        )
    };
    let value: &Spanned<String> = value.as_ref().ok_or_else(missing)?;
    text(key, value, place)?;
    Ok(Text::new(value.get_ref().as_bytes()))
}
