//! `headworks controller`.

use anyhow::{Result, ensure};
use clap::{Args, CommandFactory, Parser, Subcommand};
use headworks_controller::attach::{self, Gate};
use headworks_controller::config::{self, Tls};
use headworks_controller::server::{self, Reach};
use headworks_controller::tenant;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Sets weights and limits of tenants on many nodes at once
///
/// Nodes (region servers and DataNodes with the plug-in of HBase, and gates of databases) say what
/// each tenant has there. The controller tells them weights by which each tenant's share is fair
/// over all nodes together. Stores hear targets through their etcd. While no controller is there,
/// every node goes on with its last weights.
#[derive(Debug, Parser)]
#[command(name = "headworks-controller", bin_name = "headworks controller", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve nodes and operators, until it is killed
    Serve {
        /// The configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Show nodes, tenants and shares
    Status {
        #[command(flatten)]
        to: To,
        /// For machines
        #[arg(long)]
        json: bool,
    },
    /// Set what a tenant has on all nodes
    Set(Set),
    /// Make the fence of the one in office larger than a node has heard
    ///
    /// After etcd was restored, or the state directory was lost, fences begin again, and nodes take
    /// nothing from a smaller one than they have heard. Nodes of this version say what they have
    /// heard, and the controller raises its fence. For older nodes this command does it.
    Raise(Raise),
    /// Make a gate of this machine a node, until it is killed
    Attach {
        #[command(flatten)]
        to: To,
        /// The gate's control socket (`headworks status` names its directory)
        #[arg(long, value_name = "SOCKET")]
        gate: PathBuf,
        /// The node's name. Default: the socket's path
        #[arg(long)]
        node: Option<String>,
    },
    /// Write the manual pages (what `headworks man` starts)
    #[command(hide = true)]
    Man(headworks_console::man::Man),
}

#[derive(Clone, Debug, Args)]
struct To {
    /// Where a controller is; several are tried in turn
    #[arg(long = "controller", value_name = "HOST:PORT", default_value = "127.0.0.1:7700")]
    controllers: Vec<String>,
    /// A file with the word that the controller wants
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// This side's certificate
    #[arg(long, value_name = "FILE", requires_all = ["key", "servers"])]
    certificate: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Who signs certificates of controllers
    #[arg(long, value_name = "FILE")]
    servers: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Set {
    #[command(flatten)]
    to: To,
    /// The tenant's name
    tenant: String,
    /// Its share compared to others
    #[arg(long, value_parser = weight, allow_negative_numbers = true)]
    weight: Option<f64>,
    /// Requests a second on all nodes together
    #[arg(long, conflicts_with = "no_limit", value_parser = rate, allow_negative_numbers = true)]
    limit: Option<f64>,
    /// Take the limit away
    #[arg(long)]
    no_limit: bool,
    /// Transactions a second that stores are to make possible
    #[arg(long, conflicts_with = "no_target", value_parser = rate, allow_negative_numbers = true)]
    target: Option<f64>,
    /// Take the target away. A store that runs keeps it until its next reload
    #[arg(long)]
    no_target: bool,
    /// Forget what was set
    #[arg(long, conflicts_with_all = ["weight", "limit", "no_limit", "target", "no_target"])]
    forget: bool,
}

#[derive(Debug, Args)]
struct Raise {
    #[command(flatten)]
    to: To,
    /// What the new fence is to be larger than
    above: u64,
}

const EXAMPLES: &[(&str, &[&str])] = &[
    ("serve", &["headworks controller serve --config controller.toml"]),
    ("status", &["headworks controller status", "headworks controller status --json"]),
    ("set", &["headworks controller set alice --weight 4 --limit 1000"]),
    ("raise", &["headworks controller raise 46"]),
    ("attach", &["headworks controller attach --gate /run/headworks/default/control.sock"]),
];

fn weight(text: &str) -> Result<f64, String> {
    tenant::number(text, &tenant::WEIGHTS)
}

fn rate(text: &str) -> Result<f64, String> {
    tenant::number(text, &tenant::RATES)
}

fn main() -> ExitCode {
    headworks_console::main(|| run(headworks_console::parse::<Cli>(EXAMPLES).command))
}

impl To {
    fn reach(&self) -> Result<Reach> {
        let tls = match (&self.certificate, &self.key, &self.servers) {
            (Some(certificate), Some(key), Some(servers)) => Some(Tls {
                certificate: certificate.clone(),
                key: key.clone(),
                clients: servers.clone(),
            }),
            _ => None,
        };
        let token = config::token(self.token_file.as_deref())?;
        Ok(Reach { controllers: self.controllers.clone(), token, tls })
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Serve { config } => server::serve(config::load(&config)?)?,
        Command::Status { to, json } => {
            let reach = to.reach()?;
            let status = reach.status()?;
            if json {
                println!("{}", serde_json::to_string_pretty(&status)?);
            } else {
                print!("{}", text(&status));
            }
        }
        Command::Set(set) => {
            let named = [set.weight, set.limit, set.target].iter().any(Option::is_some);
            ensure!(
                named || set.no_limit || set.no_target || set.forget,
                "nothing is to be set\n  name what: --weight, --limit, --target, --no-limit, --no-target or --forget"
            );
            let reach = set.to.reach()?;
            let change = json!({
                "tenant": set.tenant, "weight": set.weight, "limit": set.limit, "target": set.target,
                "no_limit": set.no_limit, "no_target": set.no_target, "forget": set.forget,
            });
            println!("{}", reach.ask(&format!("set {} {change}", reach.token))?);
        }
        Command::Raise(raise) => {
            let reach = raise.to.reach()?;
            println!("{}", reach.ask(&format!("raise {} {}", reach.token, raise.above))?);
        }
        Command::Attach { to, gate, node } => {
            let name = node.unwrap_or_else(|| gate.display().to_string());
            attach::run(&to.reach()?, &Gate { socket: gate, name })?;
        }
        Command::Man(args) => {
            let command = headworks_console::with_examples(Cli::command(), EXAMPLES);
            headworks_console::man::write(command, &args, &[])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(status: &Value) -> String {
    let list = |key: &str| status[key].as_array().cloned().unwrap_or_default();
    let word = |value: &Value| match value {
        Value::String(text) => headworks_console::printable(text),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    };
    let mut out = match (status["fence"].as_u64(), status["trouble"].as_str()) {
        (Some(fence), None) => format!("in office, fence {fence}\n\n"),
        (Some(fence), Some(words)) => {
            format!("in office, fence {fence}, and nodes are told nothing: {words}\n\n")
        }
        (None, words) => format!("not in office: {}\n\n", words.unwrap_or("another controller is")),
    };
    out += &format!("{:<32} {:<14} {:>8} {:>8}\n", "NODE", "ROLE", "REPORTS", "TENANTS");
    for node in list("nodes") {
        out += &format!(
            "{:<32} {:<14} {:>8} {:>8}\n",
            word(&node["name"]),
            word(&node["role"]),
            word(&node["reports"]),
            word(&node["tenants"])
        );
    }
    out += &format!(
        "\n{:<24} {:>8} {:>8} {:>8} {:>8} {:>10}\n",
        "TENANT", "WEIGHT", "LIMIT", "TARGET", "NODES", "AT NODES"
    );
    for tenant in list("tenants") {
        let number = |key: &str| tenant[key].as_f64().unwrap_or(0.0);
        out += &format!(
            "{:<24} {:>8} {:>8} {:>8} {:>8.2} {:>10.3}\n",
            word(&tenant["name"]),
            word(&tenant["weight"]),
            word(&tenant["limit"]),
            word(&tenant["target"]),
            number("share"),
            number("weight_at_nodes")
        );
    }
    out
}
