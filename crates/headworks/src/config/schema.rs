//! What a configuration file may say.

use headworks_settings::{Mistake, Place};
use serde::Deserialize;
use toml::Spanned;

/// A whole number as written; its range is checked with [`WHOLE_NUMBERS`].
pub(super) type Number = Option<Spanned<i64>>;
pub(crate) type Words = Option<Spanned<String>>;

/// The file. Every section is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub gate: GateSection,
    #[serde(default)]
    pub class: Vec<Spanned<ClassSection>>,
    #[serde(default)]
    pub rule: Vec<Spanned<RuleSection>>,
    #[serde(default)]
    pub io: IoSection,
}

/// `[io]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IoSection {
    /// Which scheduler governs files. Default `noop`: none. Only read when the program is
    /// started, and by `headworks io set`.
    pub scheduler: Words,
    /// What the files lie on: `disk` or `flash`. Default: what the kernel says of it.
    pub device: Words,
    /// Longest time for which a call waits without progress, 10 to 60000 ms. Default 1000.
    pub io_hold_ms_max: Number,
    /// With `rcp`: how much of the memory the background may dirty before its writes wait, 1 to 50
    /// percent. Default 1.
    pub background_dirty_percent: Number,
    /// With `rcp`: reads of the background that run at a time while clients read or commit, 1 to
    /// 64. Default 1.
    pub background_reads: Number,
    /// With `rcp`: whether threads that hold what a client waits for inherit. Default true; false
    /// is for comparisons.
    pub inheritance: Option<bool>,
    #[serde(default)]
    pub file: Vec<Spanned<IoFileSection>>,
    #[serde(default)]
    pub thread: Vec<Spanned<IoThreadSection>>,
}

/// `[[io.file]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IoFileSection {
    /// Pattern for the file's path, up to 64 bytes.
    pub path: Words,
    /// Time within which an `fsync` of it should be over, 0.1 to 600000 ms.
    pub fsync_ms: Option<Spanned<f64>>,
}

/// `[[io.thread]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IoThreadSection {
    /// Pattern for the thread's name, or for the title of its process, up to 64 bytes.
    pub name: Words,
    /// Instead: pattern for the class of the session that the thread serves.
    pub class: Words,
    /// Instead: pattern for the path of its process's control group, or for the last 64 bytes.
    pub cgroup: Words,
    /// 0 (highest) to 7. Default 4.
    pub priority: Number,
    /// Normalized bytes a second that the threads of the section share, 1 to 1000000000000.
    /// Default: no limit.
    pub bytes_per_s: Number,
    /// Normalized bytes that they may save up. Default: a second's worth.
    pub burst_bytes: Number,
    /// Time within which an `fsync` by these threads should be over, 0.1 to 600000 ms. Of this one
    /// and the file's the shorter one holds.
    pub fsync_ms: Option<Spanned<f64>>,
    /// With `rcp`: whether clients wait for these threads. Default: what the gate sees.
    pub foreground: Option<bool>,
    /// The application of a storage server that their requests are of, up to 64 bytes, on a volume
    /// that is mounted with `--io`. Default: the volume's own.
    pub application: Words,
}

/// `[gate]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GateSection {
    /// `dry-run` measures, queues no session, and replays what the gate would have done; `enforce`
    /// queues sessions. Default `enforce`.
    pub mode: Words,
    /// Which sessions P counts. `working`: those on a processor or in storage I/O; a session that
    /// is blocked, whose client thinks, or that runs for long lends its permit. `admitted`: all
    /// that were admitted, whatever they do. Default `working`.
    pub count: Words,
    /// P: sessions inside the database at once, 1 to 1024, or "auto" to look for the best. Default
    /// "auto", beginning with the open gate (1024). Smaller: shorter service times and less
    /// contention, but cores may idle while sessions wait for I/O. Larger: the other way round, up
    /// to no gate at all.
    pub parallelism: Option<Spanned<NumberOrAuto>>,
    /// ζ: requests of a round over all sessions, 0 to 1048576. Default 0, the minimum that the
    /// weights allow. Smaller: fairer, shorter waits. Larger: a session keeps its turn for longer,
    /// which is kinder to caches and gives more throughput, with longer waits for the others.
    pub quota_requests: Number,
    /// Bound of unfairness, 0 to 1000: the daemon makes ζ as large as it can while unfairness stays
    /// under it. Default 0: no bound, ζ is `quota_requests`. Smaller: fairer. Larger: more
    /// locality.
    pub unfairness_max: Option<Spanned<f64>>,
    /// The same for the coefficient of variation of the latencies. Default 0.
    pub latency_cv_max: Option<Spanned<f64>>,
    /// Longest hold of a request, 1 to 3600000 ms. Default 30000. Smaller: a client's own
    /// time-out is never met, but under overload requests pass out of turn. Larger: the order
    /// holds under any load, and a mistake of ours delays for longer.
    pub hold_ms_max: Number,
    /// How long a client may idle inside a transaction before its permit is lent out, 0 to
    /// 3600000 ms. Default 100. Smaller: fewer idle permits, more sessions inside with open locks.
    /// Larger: slow clients waste permits. With 0 it is lent out at once.
    pub idle_in_transaction_ms: Number,
    /// How long a permit is kept for a session that has quota left and sends nothing, 0 to 1000000
    /// µs. Default 0. Smaller: no idle permits. Larger: quotas are used up in one go, which helps
    /// caches when clients answer at once, and wastes permits when they do not.
    pub anticipation_us: Number,
    /// How long nothing may complete, although sessions wait, before one more is let in, 10 to
    /// 3600000 ms. Default 500. Smaller: hidden locks are found sooner, but a few long queries
    /// count as a stall. Larger: the other way round.
    pub stall_ms: Number,
    /// Whether threads get processor time by the weights of their sessions' classes, through
    /// control groups. Default false. Only read when the database is started.
    pub cpu_weights: Option<Spanned<bool>>,
    /// Address on which Prometheus is served by TCP, such as "127.0.0.1:9090". Default: none, only
    /// the instance's Unix socket. Every program that reaches the address can read the names of
    /// classes and all figures.
    pub metrics: Words,
}

/// A whole number, or a word.
#[derive(Debug)]
pub(super) enum NumberOrAuto {
    /// As written.
    Number(i64),
    /// As written.
    Word(String),
}

impl<'de> Deserialize<'de> for NumberOrAuto {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl serde::de::Visitor<'_> for Either {
            type Value = NumberOrAuto;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a whole number or \"auto\"")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<NumberOrAuto, E> {
                Ok(NumberOrAuto::Number(value))
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<NumberOrAuto, E> {
                Ok(NumberOrAuto::Word(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// `[[class]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassSection {
    /// Name, up to 64 bytes. `default` is the class of all sessions that no rule names.
    pub name: Words,
    /// Share of the turns against other weights, 0.001 to 1000. Default 1. Smaller: waits longer
    /// when there is a queue. Larger: waits less, at the cost of the others.
    pub weight: Option<Spanned<f64>>,
    /// `user`: each session of the class has the weight. `class`: all of them share it. Default
    /// `user`.
    pub weight_of: Words,
    /// Latency target, 0.001 to 3600000 ms: the daemon raises the weight while the percentile is
    /// above it, and lowers it when it is clearly below. `weight` is where it begins. Default: no
    /// target. Smaller: more is taken from the others, up to four fifths of all turns.
    pub latency_ms_max: Option<Spanned<f64>>,
    /// Percentile for which the target holds, 50 to 99.99. Default 99.9. Smaller: fewer of the slow
    /// requests count.
    pub percentile: Option<Spanned<f64>>,
    /// With the I/O scheduler `rcp`: whether clients wait for what these sessions read and write.
    /// Default true; false for backups and reports, whose I/O then waits for that of others.
    pub foreground: Option<bool>,
}

/// `[[rule]]`. Patterns are up to 64 bytes long; `*` stands for any characters, `?` for one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleSection {
    /// Pattern for the database account.
    pub account: Words,
    /// Pattern for the database named at connection.
    pub database: Words,
    /// Pattern for the name that the client's program gives itself.
    pub application: Words,
    /// Client's address, a pattern for it, a network such as `10.0.0.0/8`, or `local` for the
    /// Unix socket.
    pub address: Words,
    /// Port of the server that the client connected to, 1 to 65535.
    pub port: Number,
    /// Name of the class of the connections that fit.
    pub class: Words,
    /// Never hold them. Default false.
    pub bypass: Option<Spanned<bool>>,
}

/// A key with a whole number.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeNumber {
    pub key: &'static str,
    pub unit: &'static str,
    pub least: i64,
    pub most: i64,
    pub default: &'static str,
}

const fn whole(
    key: &'static str,
    unit: &'static str,
    least: i64,
    most: i64,
    default: &'static str,
) -> WholeNumber {
    WholeNumber { key, unit, least, most, default }
}

const HOUR_MS: i64 = 3_600_000;

/// Ranges of all whole numbers.
pub(super) const WHOLE_NUMBERS: &[WholeNumber] = &[
    whole("parallelism", "sessions", 1, headworks_region::control::PERMITS as i64, "auto"),
    whole("quota_requests", "requests", 0, 1 << 20, "0"),
    whole("hold_ms_max", "milliseconds", 1, HOUR_MS, "30000"),
    whole("idle_in_transaction_ms", "milliseconds", 0, HOUR_MS, "100"),
    whole("anticipation_us", "microseconds", 0, 1_000_000, "0"),
    whole("stall_ms", "milliseconds", 10, HOUR_MS, "500"),
    whole("port", "a TCP port", 1, 65_535, "every port"),
    whole("io_hold_ms_max", "milliseconds", 10, 60_000, "1000"),
    whole("background_dirty_percent", "percent of the memory", 1, 50, "1"),
    whole("background_reads", "reads", 1, 64, "1"),
    whole("priority", "0 is the highest", 0, 7, "4"),
    whole("bytes_per_s", "normalized bytes a second", 1, 1_000_000_000_000, "no limit"),
    whole("burst_bytes", "normalized bytes", 1, 1_000_000_000_000, "a second's worth"),
];

impl WholeNumber {
    /// The one called `key`.
    pub(super) fn named(key: &str) -> Option<&'static WholeNumber> {
        WHOLE_NUMBERS.iter().find(|number| number.key == key)
    }

    /// What may be written.
    pub(super) fn range(&self) -> String {
        let WholeNumber { key, unit, least, most, default } = self;
        format!(
            "Write a whole number from {least} to {most} ({unit}), or remove `{key}` (default: {default})."
        )
    }
}

/// What to write for a key whose value has the wrong type.
fn mend_of(key: &str, message: &str) -> String {
    if message.ends_with("expected a string") {
        return format!("Write a text in quotes: `{key} = \"...\"`.");
    }
    if let Some(number) = WholeNumber::named(key) {
        return number.range();
    }
    match key {
        "weight" => "Write a number from 0.001 to 1000, without quotes.".to_owned(),
        "bypass" | "cpu_weights" => format!("Write `{key} = true`, or remove it."),
        "gate" => "Write the section as `[gate]`.".to_owned(),
        "class" | "rule" => {
            format!(
                "Write the section as `[[{key}]]`, in two brackets, because there may be several."
            )
        }
        _ => "`config/headworks.toml` shows every key.".to_owned(),
    }
}

/// Puts an error of the TOML reader into our words.
pub(super) fn explain(error: &toml::de::Error, place: &Place<'_>) -> Mistake {
    headworks_settings::explain(error, place, mend_of)
}
