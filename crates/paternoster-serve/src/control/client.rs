// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other end of the control socket: asks a line, gets a value, says in words what went wrong.
//!
//! ```no_run
//! use paternoster_serve::control::client::Client;
//! let mut client = Client::connect("/run/paternoster/control.sock".as_ref())?;
//! let answer = client.ask(&serde_json::json!({ "do": "list" }))?;
//! println!("{}", answer["devices"][0]["scheduler"]);
//! # Ok::<(), paternoster_serve::control::client::ClientError>(())
//! ```
//!
//! A question with its answer has a time limit as a whole, connecting included: a server that
//! hangs, or that sends a byte now and then, does not hang its client.
//!
//! A server of another protocol at the path is noticed by its first byte: answers begin with a
//! brace, an NBD server's greeting does not.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use serde_json::Value;

use super::request::LINE_LIMIT;

/// Bytes of an answer at most: a snapshot of four thousand connections has about four million.
const ANSWER_LIMIT: u64 = 64 << 20;
/// How long an answer may take by default: a device has ten seconds for its own.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The same for an order that waits for others' requests to end; the server gives up after a
/// minute.
pub const PATIENCE_TO_DRAIN: Duration = Duration::from_secs(75);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// There is no socket at this path.
    #[error("{}: there is no server: no such socket", path.display())]
    NoSocket {
        /// Path of the socket.
        path: PathBuf,
    },
    /// A socket without a server.
    #[error("{}: nobody listens there: the server has ended", path.display())]
    NobodyListens {
        /// Path of the socket.
        path: PathBuf,
    },
    /// The socket admits its owner, root, and what `control-mode` says.
    #[error("{}: permission denied: only its owner and root may give orders", path.display())]
    Forbidden {
        /// Path of the socket.
        path: PathBuf,
    },
    /// Another protocol.
    #[error("{}: this is not a control socket: {what}", path.display())]
    NotControl {
        /// Path of the socket.
        path: PathBuf,
        /// What the other side sent, in words.
        what: String,
    },
    /// The question is longer than a line may be.
    #[error("the request is longer than {LINE_LIMIT} bytes")]
    TooLong,
    /// The server refused the request.
    #[error("{0}")]
    Refused(String),
    /// The server has accepted the connection and does not answer.
    #[error("{}: no answer within {limit:?}: the server hangs, or is too busy", path.display())]
    NoAnswer {
        /// Path of the socket.
        path: PathBuf,
        /// How long the client waited.
        limit: Duration,
    },
    /// Any other error of the system.
    #[error("{}: {error}", path.display())]
    System {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// A connection to a control socket.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    path: PathBuf,
    limit: Duration,
    /// Bytes read but not yet returned.
    bytes: Vec<u8>,
}

impl Client {
    /// Connects; an answer may take [`PATIENCE`].
    ///
    /// # Errors
    /// As [`Client::connect_within`].
    pub fn connect(path: &Path) -> Result<Client, ClientError> {
        Client::connect_within(path, PATIENCE)
    }

    /// Connects; that, and each answer, may take `patience` at most.
    ///
    /// # Errors
    /// There is no socket, no process listens, access is denied, or the server accepts no clients.
    pub fn connect_within(path: &Path, limit: Duration) -> Result<Client, ClientError> {
        let path = path.to_owned();
        // No time at all would mean to wait for ever.
        let limit = limit.max(Duration::from_millis(1));
        let stream = match connect(&path, limit) {
            Ok(stream) => stream,
            Err(error) => {
                return Err(match error.kind() {
                    ErrorKind::NotFound => ClientError::NoSocket { path },
                    ErrorKind::PermissionDenied => ClientError::Forbidden { path },
                    ErrorKind::ConnectionRefused if is_socket(&path) => {
                        ClientError::NobodyListens { path }
                    }
                    ErrorKind::ConnectionRefused => {
                        ClientError::NotControl { path, what: "it is no socket".to_owned() }
                    }
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                        ClientError::NoAnswer { path, limit }
                    }
                    _ => ClientError::System { path, error },
                });
            }
        };
        Ok(Client { stream, path, limit, bytes: Vec::new() })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with what the server said, or why it said nothing.
    pub fn ask(&mut self, request: &Value) -> Result<Value, ClientError> {
        self.ask_text(&request.to_string())
    }

    /// Asks a line as it is written, and waits for the answer.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn ask_text(&mut self, line: &str) -> Result<Value, ClientError> {
        if line.len() > LINE_LIMIT {
            return Err(ClientError::TooLong);
        }
        // One line per request, however it was typed.
        let mut line = line.replace(['\n', '\r'], " ");
        line.push('\n');
        let until = Instant::now() + self.limit;
        // What does not fit is a piece less to wait for: the limit ends it all the same.
        let sent = self.stream.set_write_timeout(Some(self.limit));
        let sent = sent.and_then(|()| self.stream.write_all(line.as_bytes()));
        // A client that was refused when it connected could send nothing, and gets an answer all
        // the same.
        let answer = self.line(until).map_err(|error| match (error, sent) {
            (ClientError::System { .. }, Err(error)) => self.system(error),
            (error, _) => error,
        })?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| self.not_control(format!("its answer is no JSON: {error}")))?;
        match answer.get("error") {
            Some(Value::String(why)) => Err(ClientError::Refused(why.clone())),
            Some(other) => Err(ClientError::Refused(other.to_string())),
            None => Ok(answer),
        }
    }

    fn line(&mut self, until: Instant) -> Result<Vec<u8>, ClientError> {
        let mut searched = 0;
        loop {
            if self.bytes.first().is_some_and(|byte| *byte != b'{') {
                let beginning: Vec<u8> = self.bytes.iter().take(16).copied().collect();
                let beginning = String::from_utf8_lossy(&beginning).into_owned();
                return Err(self.not_control(format!("it says {beginning:?}")));
            }
            let end = self.bytes[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let rest = self.bytes.split_off(searched + end + 1);
                return Ok(std::mem::replace(&mut self.bytes, rest));
            }
            searched = self.bytes.len();
            if searched as u64 > ANSWER_LIMIT {
                return Err(self.not_control("its answer has no end".to_owned()));
            }
            let mut piece = [0; 16 << 10];
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(self.no_answer());
            }
            let limited = self.stream.set_read_timeout(Some(left));
            match limited.and_then(|()| self.stream.read(&mut piece)) {
                Ok(0) => return Err(self.system(ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.system(error)),
            }
        }
    }

    fn system(&self, error: io::Error) -> ClientError {
        let error = match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                io::Error::new(error.kind(), "the server closed the connection")
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => return self.no_answer(),
            _ => error,
        };
        ClientError::System { path: self.path.clone(), error }
    }

    fn no_answer(&self) -> ClientError {
        ClientError::NoAnswer { path: self.path.clone(), limit: self.limit }
    }

    fn not_control(&self, what: String) -> ClientError {
        ClientError::NotControl { path: self.path.clone(), what }
    }
}

/// Connects; where too many wait already, a unix socket waits as long as it would to send.
fn connect(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, kind, None)?;
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    net::connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|there| there.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Does the error say that there is no control socket?
    #[test]
    fn errors_in_words() {
        let folder =
            std::env::temp_dir().join(format!("paternoster-client-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("s");
        let said = |expected: &str| {
            let error = Client::connect(&path).expect_err("no server").to_string();
            assert_eq!(error, format!("{}: {expected}", path.display()));
        };
        said("there is no server: no such socket");
        std::fs::write(&path, "").expect("a file");
        said("this is not a control socket: it is no socket");
        std::fs::remove_file(&path).expect("gone");
        let listener = UnixListener::bind(&path).expect("a socket");
        let nbd = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(b"NBDMAGICIHAVEOPT\x00\x03").expect("sent");
        });
        let mut client = Client::connect(&path).expect("a server");
        let error = client.ask_text("{}").expect_err("another protocol").to_string();
        assert!(error.contains("not a control socket: it says \"NBDMAGICIHAVEOPT\""), "{error}");
        nbd.join().expect("it ends");
        said("nobody listens there: the server has ended");
        std::fs::remove_dir_all(&folder).expect("gone");
    }

    /// Does a client get an error message from a server that sends nothing, one that sends a byte
    /// now and then for ever, and one that accepts no clients? The test is that each case ends.
    #[test]
    fn no_answer_in_time() {
        let folder =
            std::env::temp_dir().join(format!("paternoster-silent-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("s");
        let limit = Duration::from_millis(200);
        for says in [&b""[..], &b"{"[..]] {
            let _gone = std::fs::remove_file(&path);
            let listener = UnixListener::bind(&path).expect("a socket");
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a client");
                while stream.write_all(says).is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                    let mut byte = [0];
                    stream.set_nonblocking(true).expect("a socket");
                    if matches!(stream.read(&mut byte), Ok(0)) {
                        break;
                    }
                }
            });
            let mut client = Client::connect_within(&path, limit).expect("a server");
            let error = client.ask_text("{}").expect_err("no answer");
            assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
            assert!(error.to_string().contains("no answer within 200ms"), "{error}");
            drop(client);
            server.join().expect("it ends");
        }
        let _gone = std::fs::remove_file(&path);
        let full = crate::host::unix_socket::listen_at(&path, 0o600, 0, None).expect("a socket");
        let mut inside = Vec::new();
        let error = loop {
            match Client::connect_within(&path, limit) {
                Ok(client) => inside.push(client),
                Err(error) => break error,
            }
            assert!(inside.len() < 1000, "it lets everybody in");
        };
        assert!(matches!(error, ClientError::NoAnswer { .. }), "{error}");
        drop(full);
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}
