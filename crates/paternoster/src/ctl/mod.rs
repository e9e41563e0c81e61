// SPDX-License-Identifier: MIT OR Apache-2.0
//! `paternoster ctl`: orders to a running server, its answers as tables or as JSON.
//!
//! ```text
//! words of the command line ─▶ request (a line) ─▶ control socket ─▶ answer ─▶ table
//! ```
//!
//! The server decides what can be asked: words are put into a line, and the server says what is
//! wrong with them.

mod forms;
mod lines;
mod tell;
mod tree;
pub(crate) mod units;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use paternoster_frame::results::{Format, emit};
use paternoster_frame::say;
use paternoster_frame::{Failure, print};
use paternoster_serve::config::quantity;
use paternoster_serve::control::DEFAULT_SOCKET;
use paternoster_serve::control::client::{Client, ClientError, PATIENCE, PATIENCE_TO_DRAIN};
use serde_json::{Value, json};

/// `raw` prints answers as they come.
const JSON_OR_TABLE: [Format; 2] = [Format::Json, Format::Table];

/// Names the socket where no option does.
const VARIABLE: &str = "PATERNOSTER_CONTROL";

/// Control a running `paternoster serve`, or ask for its state
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  paternoster ctl list
  paternoster ctl weight db 300
  paternoster ctl class backup background --minimum 5%
  paternoster ctl set slice_idle=0 low_latency=0 --device disk0
  paternoster ctl drain vm7 --socket /run/paternoster/control.sock
  paternoster ctl explain db
  paternoster ctl reload
  paternoster ctl status --format json | jq '.devices[].busy_ns'
  paternoster ctl raw '{\"do\":\"help\"}'

Exit status: 0 done, 1 the server is not there, does not answer in time or said no, 2 the request \
was wrong.")]
pub(crate) struct CtlOptions {
    #[command(flatten)]
    pub(crate) server: ServerOptions,

    /// Only this device
    #[arg(long, value_name = "NAME", global = true)]
    pub(crate) device: Option<String>,

    /// How long an answer may take [default: 20s; drain, reload, stop: 75s]
    #[arg(long, value_name = "TIME", global = true)]
    pub(crate) timeout: Option<String>,

    /// How to print the answers
    #[arg(long, global = true, value_name = "FORMAT", default_value = "table")]
    pub(crate) format: Format,

    /// The same as `--format json`
    #[arg(long, global = true, hide = true)]
    pub(crate) json: bool,

    #[command(subcommand)]
    pub(crate) order: CtlOrder,
}

/// The server to talk to.
#[derive(Debug, Args)]
pub(crate) struct ServerOptions {
    /// The server's control socket [default: $PATERNOSTER_CONTROL, else
    /// /run/paternoster/control.sock]
    #[arg(long, value_name = "PATH", global = true)]
    pub(crate) socket: Option<PathBuf>,
}

/// The order.
#[derive(Debug, Subcommand)]
pub(crate) enum CtlOrder {
    /// Devices, volumes, tenants, connections
    List,
    /// What each client got since the start
    Status,
    /// Set the weight of a tenant or a group
    Weight {
        /// Tenant or group
        name: String,
        /// 1 to 10000
        weight: u64,
    },
    /// Set the class of a tenant
    Class {
        /// Tenant
        name: String,
        /// best-effort, realtime, idle or background
        class: String,
        /// Class background never gets less than this part of the device: 5%
        #[arg(long, value_name = "PERCENT")]
        minimum: Option<String>,
        /// 0 (most) to 7 (least) [default: 4]
        #[arg(long, value_name = "N")]
        level: Option<u64>,
    },
    /// Change the scheduler; what waits is handed over
    Scheduler {
        /// As `paternoster schedulers` lists them
        name: String,
    },
    /// Print the value of an attribute
    Get {
        /// As sysfs names it
        attribute: String,
    },
    /// Set attributes, in this order
    Set {
        /// Name and value
        #[arg(value_name = "ATTRIBUTE=VALUE", required = true)]
        assignments: Vec<String>,
    },
    /// All attributes with their values and meanings
    Attributes,
    /// Stop a volume from taking requests, and wait until the last has ended
    Drain {
        /// The volume
        volume: String,
    },
    /// Let a drained volume take requests again
    Resume {
        /// The volume
        volume: String,
    },
    /// The effective weight at every level, and why; which requests wait for what
    Explain {
        /// Only this tenant
        tenant: Option<String>,
    },
    /// Begin or end a blktrace of a device
    #[command(subcommand)]
    Trace(TraceOrder),
    /// Read the configuration file again; applies what has changed and names what cannot be
    /// applied, including settings that were ordered and not saved: the file counts
    Reload,
    /// Write the ordered settings of tenants, schedulers and attributes to the configuration file
    Save,
    /// Let guests finish their requests, then end the server
    Stop,
    /// Send a line as it is, print the answer
    Raw {
        /// {"do":"help"} lists the requests
        #[arg(value_name = "JSON")]
        request: String,
    },
}

/// Trace orders.
#[derive(Debug, Subcommand)]
pub(crate) enum TraceOrder {
    /// Begin; the server writes the files
    Start {
        /// The files are PREFIX.blktrace.0 and so on
        prefix: PathBuf,
    },
    /// End
    Stop,
}

/// Connects to the server that the options or the environment name; `long` allows it longer to
/// answer.
pub(crate) fn connect(options: &ServerOptions, limit: Duration) -> Result<Client, Failure> {
    let variable = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let path = options.socket.clone().or(variable);
    let path = path.as_deref().unwrap_or(Path::new(DEFAULT_SOCKET));
    Client::connect_within(path, limit).map_err(failure)
}

/// The server's refusal, or that there is no server.
pub(crate) fn failure(error: ClientError) -> Failure {
    Failure::Job(error.to_string())
}

/// How long an answer may take.
fn limit(options: &CtlOptions) -> Result<Duration, Failure> {
    let waits = matches!(options.order, CtlOrder::Drain { .. } | CtlOrder::Reload | CtlOrder::Stop);
    let Some(text) = &options.timeout else {
        return Ok(if waits { PATIENCE_TO_DRAIN } else { PATIENCE });
    };
    let refused = |why: &str| Failure::Request(format!("--timeout cannot be `{text}`: {why}"));
    let time = quantity::time(text).map_err(|why| refused(&why))?;
    if !(1_000_000..=3_600_000_000_000).contains(&time.0) {
        return Err(refused("1ms to 1h"));
    }
    Ok(Duration::from_nanos(time.0))
}

pub(crate) fn ctl(options: &CtlOptions) -> Result<(), Failure> {
    let requests = requests(options)?;
    let (format, mut answers) = (options.format.or_json(options.json), Vec::new());
    if matches!(options.order, CtlOrder::Raw { .. }) && !JSON_OR_TABLE.contains(&format) {
        let message = "ctl raw prints an answer as it came: --format json, or none; the other \
                       orders have all formats";
        return Err(Failure::Request(message.to_owned()));
    }
    let mut client = connect(&options.server, limit(options)?)?;
    for request in requests {
        let answer = client.ask_text(&request).map_err(failure)?;
        match format {
            _ if matches!(options.order, CtlOrder::Raw { .. }) => print(&format!("{answer}\n"))?,
            Format::Json => print(&format!("{answer}\n"))?,
            Format::Table => {
                print(&tell::answer(&options.order, &answer)?)?;
                tell::notes(&answer).iter().for_each(|note| say!("note: {note}"));
            }
            _ => answers.push(answer),
        }
    }
    match format {
        Format::Table | Format::Json => Ok(()),
        format => {
            let results = forms::results(&options.order, &answers);
            emit(format, None, |format| results.told(format))
        }
    }
}

/// The lines to send.
fn requests(options: &CtlOptions) -> Result<Vec<String>, Failure> {
    let one = match &options.order {
        CtlOrder::Raw { request } => return Ok(vec![request.clone()]),
        CtlOrder::Set { assignments } => {
            let each = assignments.iter().map(|text| set(text));
            let all: Result<Vec<Value>, Failure> = each.collect();
            return Ok(all?.into_iter().map(|request| line(request, options)).collect());
        }
        CtlOrder::List => json!({ "do": "list" }),
        CtlOrder::Status => json!({ "do": "snapshot" }),
        CtlOrder::Weight { name, weight } => {
            json!({ "do": "weight", "name": name, "weight": weight })
        }
        CtlOrder::Class { name, class, minimum, level } => json!({
            "do": "class", "name": name, "class": class, "minimum": minimum, "level": level
        }),
        CtlOrder::Scheduler { name } => json!({ "do": "scheduler", "name": name }),
        CtlOrder::Get { attribute } => json!({ "do": "get", "attribute": attribute }),
        CtlOrder::Attributes => json!({ "do": "attributes" }),
        CtlOrder::Drain { volume } => json!({ "do": "drain", "volume": volume }),
        CtlOrder::Resume { volume } => json!({ "do": "resume", "volume": volume }),
        CtlOrder::Explain { tenant } => json!({ "do": "explain", "tenant": tenant }),
        CtlOrder::Trace(TraceOrder::Start { prefix }) => {
            // The server's working directory is not ours.
            json!({ "do": "trace", "prefix": std::path::absolute(prefix)? })
        }
        CtlOrder::Trace(TraceOrder::Stop) => json!({ "do": "trace", "stop": true }),
        CtlOrder::Reload => json!({ "do": "reload" }),
        CtlOrder::Save => json!({ "do": "save" }),
        CtlOrder::Stop => json!({ "do": "stop" }),
    };
    Ok(vec![line(one, options)])
}

fn set(text: &str) -> Result<Value, Failure> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(json!({ "do": "set", "attribute": name, "value": value }))
        }
        _ => Err(Failure::Request(format!("`{text}` sets nothing: write ATTRIBUTE=VALUE"))),
    }
}

/// A request as a line: with the device, without fields that were left out.
fn line(mut request: Value, options: &CtlOptions) -> String {
    let Some(fields) = request.as_object_mut() else { return request.to_string() };
    if let Some(device) = &options.device {
        fields.insert("device".to_owned(), device.clone().into());
    }
    fields.retain(|_, value| !value.is_null());
    request.to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use paternoster_serve::control::request::parse;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        options: CtlOptions,
    }

    fn lines(words: &[&str]) -> Vec<String> {
        let all = ["ctl"].iter().chain(words);
        let program = Program::try_parse_from(all).unwrap_or_else(|error| panic!("{error}"));
        requests(&program.options).unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// Does every command become the line in the documentation, which servers understand?
    #[test]
    fn commands_become_lines() {
        for (words, expected) in [
            (&["list"][..], r#"{"do":"list"}"#),
            (&["status", "--device", "d"], r#"{"device":"d","do":"snapshot"}"#),
            (&["weight", "db", "300"], r#"{"do":"weight","name":"db","weight":300}"#),
            (
                &["class", "db", "background", "--minimum", "5%"],
                r#"{"class":"background","do":"class","minimum":"5%","name":"db"}"#,
            ),
            (
                &["class", "db", "realtime", "--level", "2"],
                r#"{"class":"realtime","do":"class","level":2,"name":"db"}"#,
            ),
            (&["scheduler", "bfq"], r#"{"do":"scheduler","name":"bfq"}"#),
            (&["get", "hz"], r#"{"attribute":"hz","do":"get"}"#),
            (&["set", "a=1=2"], r#"{"attribute":"a","do":"set","value":"1=2"}"#),
            (&["attributes"], r#"{"do":"attributes"}"#),
            (&["drain", "a"], r#"{"do":"drain","volume":"a"}"#),
            (&["resume", "a"], r#"{"do":"resume","volume":"a"}"#),
            (&["explain"], r#"{"do":"explain"}"#),
            (&["explain", "db"], r#"{"do":"explain","tenant":"db"}"#),
            (&["trace", "start", "/tmp/x"], r#"{"do":"trace","prefix":"/tmp/x"}"#),
            (&["trace", "stop"], r#"{"do":"trace","stop":true}"#),
            (&["reload"], r#"{"do":"reload"}"#),
            (&["save"], r#"{"do":"save"}"#),
            (&["stop"], r#"{"do":"stop"}"#),
        ] {
            assert_eq!(lines(words), [expected], "{words:?}");
            assert!(parse(expected.as_bytes()).is_ok(), "{expected}");
        }
        assert_eq!(lines(&["raw", "anything"]), ["anything"]);
        assert_eq!(lines(&["set", "a=1", "b=2"]).len(), 2);
        assert!(set("a").is_err() && set("=1").is_err());
    }
}
