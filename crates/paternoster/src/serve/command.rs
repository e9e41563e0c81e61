// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command of `--run`: a shell with the served exports in its environment.
//!
//! | variable | what |
//! |---|---|
//! | `uri` | the first export at the first socket |
//! | `nbd` | the same for programs that know no URIs |
//! | `unixsocket` | the socket's path, or empty |
//! | `port` | the TCP port, or empty |
//! | `exportname` | the export's name |
//! | `file` | the first volume's file, if there are files (FUSE), or empty |
//!
//! Without a socket the first four are empty.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use paternoster_frame::Failure;
use paternoster_serve::config::TlsMode;
use paternoster_serve::host::listen::Place;
use paternoster_serve::host::uri;
use paternoster_serve::host::{activation, notify};

/// The shell, ready to be started.
pub(super) fn shell(
    line: &str,
    socket: Option<(&Place, TlsMode)>,
    export: &str,
    file: Option<&Path>,
) -> Command {
    let (path, port) = match socket {
        Some((Place::Unix(path), _)) => (path.display().to_string(), String::new()),
        Some((Place::Tcp(at), _)) => (String::new(), at.port().to_string()),
        None => (String::new(), String::new()),
    };
    let new = socket.map(|(place, tls)| uri::uri(place, tls, export));
    let old = socket.map(|(place, _)| uri::old_form(place, export));
    let mut command = Command::new("sh");
    command.arg("-c").arg(line);
    command.env("uri", new.unwrap_or_default()).env("nbd", old.unwrap_or_default());
    command.env("file", file.map_or(OsStr::new(""), Path::as_os_str));
    command.env("unixsocket", path).env("port", port).env("exportname", export);
    for variable in activation::VARIABLES.iter().chain(&notify::VARIABLES) {
        command.env_remove(variable);
    }
    command
}

/// Our exit status, after the command's. A signal's number counts from 128, as in a shell.
pub(crate) fn verdict(status: ExitStatus) -> Result<(), Failure> {
    let signal = status.signal().map(|signal| signal.saturating_add(128));
    match status.code().or(signal) {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Status(u8::try_from(code).unwrap_or(u8::MAX))),
        None => Err(Failure::Job("--run: the command has not ended".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(place: Option<&Place>, file: Option<&str>, line: &str) -> String {
        let socket = place.map(|place| (place, TlsMode::Off));
        let output = shell(line, socket, "vm1", file.map(Path::new)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// Does the command get everything by name?
    #[test]
    fn what_a_command_has() {
        let line = "echo \"$uri $nbd $unixsocket $port $exportname $file.\"";
        let unix = "nbd+unix:///vm1?socket=/s nbd:unix:/s:exportname=vm1 /s  vm1 .\n";
        assert_eq!(said(Some(&Place::Unix("/s".into())), None, line), unix);
        let tcp = "nbd://127.0.0.1:7/vm1 nbd:127.0.0.1:7:exportname=vm1  7 vm1 /m/vm1.\n";
        let place = Place::Tcp("127.0.0.1:7".parse().unwrap());
        assert_eq!(said(Some(&place), Some("/m/vm1"), line), tcp);
        assert_eq!(said(None, Some("/m/vm1"), line), "    vm1 /m/vm1.\n");
    }

    /// Does our exit follow the command's, by status and by signal?
    #[test]
    fn its_end_is_ours() {
        let end = |line: &str| verdict(shell(line, None, "x", None).status().unwrap());
        assert!(end("true").is_ok());
        assert!(matches!(end("exit 7"), Err(Failure::Status(7))));
        // SIGTERM is 15: 128 + 15.
        assert!(matches!(end("kill $$"), Err(Failure::Status(143))));
    }
}
