// SPDX-License-Identifier: MIT OR Apache-2.0
//! HTTP for monitors: `/metrics` and `/healthz`, on loopback, or under TLS.
//!
//! ```text
//! GET /metrics HTTP/1.1  ──▶ loops: Snapshot ──▶ 200, text (the dialect that `Accept` asks for)
//! GET /healthz HTTP/1.1  ──▶ loops: Snapshot ──▶ 200 "ok", or 503 and what is not well
//! ```
//!
//! One request a connection, no body, at most 8 KiB, ten seconds from beginning to end. This tells
//! tenants' names to each client that asks: addresses beyond loopback are refused at start unless
//! they have TLS, which asks monitors for certificates if it asks clients.
//!
//! Source: RFC 9112 (messages), RFC 9110 (statuses).

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::acceptor::{Acceptor, Listener, Peer, Stream};
use super::answer::snapshots;
use super::health;
use super::metrics::{Dialect, exposition};
use super::secured::{Certified, Secured};
use crate::device_loop::DeviceLoopHandle;

/// Bytes of a request at most.
const REQUEST_LIMIT: usize = 8 << 10;
/// Connections at a time.
const CONNECTIONS: usize = 16;
/// A loop that has not answered by then is not well.
const BOUND: Duration = Duration::from_secs(2);
/// From the connection to the request's last byte; and for the answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server for monitors; ends when it is dropped.
pub struct HttpServer {
    acceptor: Acceptor,
    address: SocketAddr,
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Listens at an address, of loopback if there is no TLS; port 0 takes one that is free. On
    /// loopback there is no TLS.
    ///
    /// # Errors
    /// The address is not of loopback, or cannot be listened at.
    pub fn start(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        device_loops: Vec<DeviceLoopHandle>,
    ) -> io::Result<HttpServer> {
        HttpServer::with_patience(address, tls, device_loops, PATIENCE)
    }

    fn with_patience(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        device_loops: Vec<DeviceLoopHandle>,
        patience: Duration,
    ) -> io::Result<HttpServer> {
        let socket = HttpSocket::listen(address, tls)?;
        HttpServer::at(socket, device_loops, patience, Arc::default())
    }

    /// Starts a server at a socket that is already open.
    pub(crate) fn behind(
        socket: HttpSocket,
        device_loops: Vec<DeviceLoopHandle>,
        paused: Arc<AtomicBool>,
    ) -> io::Result<HttpServer> {
        HttpServer::at(socket, device_loops, PATIENCE, paused)
    }

    fn at(
        socket: HttpSocket,
        device_loops: Vec<DeviceLoopHandle>,
        patience: Duration,
        paused: Arc<AtomicBool>,
    ) -> io::Result<HttpServer> {
        let HttpSocket { listener, certified } = socket;
        let address = listener.local_addr()?;
        let full = Reply::refusal(503, "too many connections\n").bytes(true);
        let acceptor = match certified {
            None => open(listener, device_loops, (Host::IsAsked, paused), patience, full),
            // The owner of a name has no certificate of ours for it.
            Some(tls) => open(
                Secured { listener, tls },
                device_loops,
                (Host::IsKnown, paused),
                patience,
                full,
            ),
        };
        Ok(HttpServer { acceptor: acceptor?, address })
    }

    /// The address that it listens at.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Closes all connections and waits for their threads.
    pub fn stop(mut self) {
        self.acceptor.close();
    }
}

/// A socket for monitors that is open, and at which nothing answers yet.
#[derive(Debug)]
pub(crate) struct HttpSocket {
    listener: TcpListener,
    certified: Option<Certified>,
}

impl HttpSocket {
    /// Listens at an address.
    pub(crate) fn listen(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<HttpSocket> {
        HttpSocket::with(address, tls, None)
    }

    /// Listens at an address, by a socket that another process listens by, if there is one.
    pub(crate) fn with(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        taken: Option<OwnedFd>,
    ) -> io::Result<HttpSocket> {
        let certified = tls.filter(|_| !is_loopback(address.ip())).map(Certified::new);
        if !is_loopback(address.ip()) && certified.is_none() {
            let why = format!(
                "metrics at {address}: only loopback is served without TLS, like 127.0.0.1:{} or \
                 [::1]:{}",
                address.port(),
                address.port()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        }
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("metrics at {address}: {error}"))
        };
        let listener = match taken {
            Some(socket) => TcpListener::from(socket),
            None => TcpListener::bind(address).map_err(named)?,
        };
        listener.set_nonblocking(true)?;
        Ok(HttpSocket { listener, certified })
    }

    /// The socket, once more.
    pub(crate) fn again(&self) -> io::Result<OwnedFd> {
        Ok(self.listener.try_clone()?.into())
    }

    /// The certificates for new clients, if any.
    pub(crate) fn certified(&self) -> Option<Certified> {
        self.certified.clone()
    }
}

/// Whether it is to be asked what name a client came for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    IsAsked,
    IsKnown,
}

fn open<L: Listener>(
    listener: L,
    device_loops: Vec<DeviceLoopHandle>,
    (host, paused): (Host, Arc<AtomicBool>),
    patience: Duration,
    full: Vec<u8>,
) -> io::Result<Acceptor> {
    Acceptor::open(
        "metrics",
        listener,
        CONNECTIONS,
        paused,
        move |peer| serve(peer, &device_loops, host, patience),
        move |peer| drop(peer.write_all(&full, Instant::now())),
    )
}

fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

fn serve<S: Stream>(
    peer: &mut Peer<S>,
    device_loops: &[DeviceLoopHandle],
    host: Host,
    patience: Duration,
) {
    let deadline = Instant::now() + patience;
    let mut bytes = Vec::new();
    let reply = loop {
        if let Some(reply) = answer(&bytes, device_loops, host) {
            break reply;
        }
        let mut piece = [0; 1024];
        match peer.read(&mut piece, deadline) {
            Ok(0) if bytes.is_empty() => return,
            Ok(0) => break Reply::refusal(400, "the request has no end\n"),
            Ok(read) => bytes.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                break Reply::refusal(408, "the request did not end in time\n");
            }
            Err(_) => return,
        }
    };
    let with_body = !bytes.starts_with(b"HEAD ");
    if peer.write_all(&reply.bytes(with_body), Instant::now() + patience).is_ok() {
        peer.close_finished(Instant::now() + Duration::from_secs(1));
    }
}

/// The response to these bytes; `None`: the head is not complete yet.
///
/// For fuzzing: it is what a connection does, without one.
#[must_use]
pub fn reply(bytes: &[u8], device_loops: &[DeviceLoopHandle]) -> Option<Vec<u8>> {
    let reply = answer(bytes, device_loops, Host::IsAsked)?;
    Some(reply.bytes(!bytes.starts_with(b"HEAD ")))
}

fn answer(bytes: &[u8], device_loops: &[DeviceLoopHandle], host: Host) -> Option<Reply> {
    match head_end(bytes) {
        Some(end) => Some(respond(&bytes[..end], device_loops, host)),
        None if bytes.len() >= REQUEST_LIMIT => {
            Some(Reply::refusal(431, "a request has at most 8 KiB\n"))
        }
        None => None,
    }
}

/// The offset after the blank line that ends a head.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let find =
        |end: &[u8]| bytes.windows(end.len()).position(|w| w == end).map(|at| at + end.len());
    match (find(b"\r\n\r\n"), find(b"\n\n")) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The requested resource.
#[derive(Debug, PartialEq, Eq)]
struct Head<'a> {
    method: &'a str,
    path: &'a str,
    accept: &'a str,
    host: Option<&'a str>,
}

/// Reads a head.
fn parse(bytes: &[u8]) -> Result<Head<'_>, Reply> {
    let bad = |why: &str| Reply::refusal(400, why);
    let text = std::str::from_utf8(bytes).map_err(|_| bad("the request is not text\n"))?;
    let mut lines = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    let first = lines.next().unwrap_or("");
    let words: Vec<&str> = first.split(' ').collect();
    let [method, target, version] = words[..] else {
        return Err(bad("the first line is METHOD PATH HTTP/1.1\n"));
    };
    if !["HTTP/1.1", "HTTP/1.0"].contains(&version) {
        return Err(Reply::refusal(505, "this server speaks HTTP/1.1\n"));
    }
    if !is_token(method) || !target.starts_with('/') {
        return Err(bad("the first line is METHOD PATH HTTP/1.1\n"));
    }
    let path = target.split('?').next().unwrap_or("");
    let (mut hosts, mut head) = (0, Head { method, path, accept: "", host: None });
    for line in lines.take_while(|line| !line.is_empty()) {
        let field = line.split_once(':').filter(|(name, _)| is_token(name));
        let Some((name, value)) = field else { return Err(bad("a field is NAME: VALUE\n")) };
        if name.eq_ignore_ascii_case("host") {
            hosts += 1;
            head.host = Some(value.trim());
        }
        if name.eq_ignore_ascii_case("accept") {
            head.accept = value;
        }
    }
    if hosts > 1 || (version == "HTTP/1.1" && hosts == 0) {
        return Err(bad("there must be one field Host\n"));
    }
    Ok(head)
}

/// Whether a request came for an address, or for this machine by the name that it has everywhere.
///
/// A browser asks for the name in a page's address. The owner of a name can say that it is
/// 127.0.0.1 (DNS rebinding), and its page could then read these answers.
fn is_of_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<Ipv4Addr>().is_ok()
        || bare.is_some_and(|name| name.parse::<Ipv6Addr>().is_ok())
}

fn is_token(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(fits)
}

fn respond(bytes: &[u8], device_loops: &[DeviceLoopHandle], host: Host) -> Reply {
    let head = match parse(bytes) {
        Ok(head) => head,
        Err(reply) => return reply,
    };
    if host == Host::IsAsked && !head.host.is_none_or(is_of_this_machine) {
        let why = "ask for an address or localhost, as http://127.0.0.1:9809/metrics\n";
        return Reply::refusal(421, why);
    }
    let known = ["/metrics", "/healthz"].contains(&head.path);
    match (head.method, head.path) {
        _ if !known => Reply::refusal(404, "there are /metrics and /healthz\n"),
        ("GET" | "HEAD", "/metrics") => metrics(device_loops, head.accept),
        ("GET" | "HEAD", _) => health(device_loops),
        _ => Reply::refusal(405, "only GET and HEAD\n"),
    }
}

fn metrics(device_loops: &[DeviceLoopHandle], accept: &str) -> Reply {
    let dialect = if accept.to_ascii_lowercase().contains("application/openmetrics-text") {
        Dialect::OpenMetrics
    } else {
        Dialect::Prometheus
    };
    let all = snapshots(device_loops, BOUND);
    let known: Vec<_> = all.into_iter().map(|(name, snapshot)| (name, snapshot.ok())).collect();
    Reply { status: 200, kind: dialect.content_type(), body: exposition(&known, dialect) }
}

fn health(device_loops: &[DeviceLoopHandle]) -> Reply {
    let (all_well, body) = health::told(&snapshots(device_loops, BOUND));
    Reply { status: if all_well { 200 } else { 503 }, kind: TEXT, body }
}

const TEXT: &str = "text/plain; charset=utf-8";

#[derive(Debug, PartialEq, Eq)]
struct Reply {
    status: u16,
    kind: &'static str,
    body: String,
}

impl Reply {
    fn refusal(status: u16, why: &str) -> Reply {
        Reply { status, kind: TEXT, body: why.to_owned() }
    }

    fn bytes(&self, with_body: bool) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            505 => "HTTP Version Not Supported",
            _ => "Service Unavailable",
        };
        let allow = if self.status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let body = if with_body { self.body.as_str() } else { "" };
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{body}",
            self.status,
            self.kind,
            self.body.len()
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::*;
    use crate::control::snapshot::Snapshot;

    fn device_loops() -> Vec<DeviceLoopHandle> {
        let well = DeviceLoopHandle::new("disk0".to_owned(), Vec::new(), |_| {
            let snapshot = Snapshot { device: "disk0".to_owned(), ..Snapshot::default() };
            Ok(serde_json::to_value(snapshot).expect("plain data"))
        });
        let ill = DeviceLoopHandle::new("disk1".to_owned(), Vec::new(), |_| {
            Err("the loop has ended".to_owned())
        });
        vec![well, ill]
    }

    fn start(device_loops: Vec<DeviceLoopHandle>) -> HttpServer {
        HttpServer::start("127.0.0.1:0".parse().expect("an address"), None, device_loops)
            .expect("a port")
    }

    fn exchange(server: &HttpServer, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.local_addr()).expect("a server");
        stream.write_all(request).expect("sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text
    }

    /// Is every request answered as HTTP wants it, right or wrong?
    #[test]
    fn statuses() {
        let server = start(device_loops());
        let host = "Host: localhost\r\n\r\n";
        for (request, status, body) in [
            (format!("GET /metrics HTTP/1.1\r\n{host}"), "200 OK", "# HELP paternoster_up "),
            (format!("GET /metrics?x=1 HTTP/1.1\r\n{host}"), "200 OK", "# HELP paternoster_up "),
            ("GET /metrics HTTP/1.0\n\n".to_owned(), "200 OK", "# HELP paternoster_up "),
            (format!("HEAD /metrics HTTP/1.1\r\n{host}"), "200 OK", ""),
            (
                format!("GET /healthz HTTP/1.1\r\n{host}"),
                "503 Service Unavailable",
                "disk1: the loop has ended\n",
            ),
            (format!("GET / HTTP/1.1\r\n{host}"), "404 Not Found", "there are /metrics"),
            (format!("POST /metrics HTTP/1.1\r\n{host}"), "405 Method Not Allowed", "only GET"),
            ("GET /metrics HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request", "there must be one"),
            (
                format!("GET /metrics HTTP/1.1\r\n{host}").replace("Host:", "Host :"),
                "400 ",
                "a field",
            ),
            (format!("GET /metrics HTTP/2\r\n{host}"), "505 ", "this server"),
            (format!("GET metrics HTTP/1.1\r\n{host}"), "400 ", "the first line"),
            ("\r\n\r\n".to_owned(), "400 ", "the first line"),
            (format!("G\0T / HTTP/1.1\r\n{host}"), "400 ", "the first line"),
            (format!("GET /{} HTTP/1.1\r\n{host}", "x".repeat(9000)), "431 ", "a request has"),
        ] {
            let answer = exchange(&server, request.as_bytes());
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request}: {answer}");
            let (head, said) = answer.split_once("\r\n\r\n").expect("a head");
            assert!(said.starts_with(body), "{request}: {answer}");
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .and_then(|text| text.parse().ok())
                .expect("a length");
            assert!(request.starts_with("HEAD") || length == said.len(), "{answer}");
        }
        let invalid = exchange(&server, b"GET /\xff HTTP/1.1\r\n\r\n");
        assert!(invalid.starts_with("HTTP/1.1 400 "), "{invalid}");
        server.stop();
    }

    /// Is a page refused whose name leads here (DNS rebinding), by whatever letters its name is
    /// near an address or localhost?
    #[test]
    fn names_of_others() {
        for host in ["localhost", "LOCALHOST:9809", "127.0.0.1", "127.0.0.1:1", "[::1]:9", "[::1]"]
        {
            assert!(is_of_this_machine(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example:9809",
            "127.0.0.1.evil.example",
            "evil.example#127.0.0.1",
            "127.0.0.1@evil.example",
            "localhost:9809:1",
            "localhost.",
            "::1",
            "[::1",
            "0x7f000001",
            "",
            ":9809",
        ] {
            assert!(!is_of_this_machine(host), "{host}");
            let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
            let reply = respond(request.as_bytes(), &device_loops(), Host::IsAsked);
            assert_eq!(reply.status, 421, "{host}");
        }
        let two = "GET /metrics HTTP/1.0\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
        assert_eq!(respond(two.as_bytes(), &device_loops(), Host::IsAsked).status, 400);
    }

    /// Does the dialect follow what the monitor accepts?
    #[test]
    fn dialects() {
        let server = start(device_loops());
        let request = "GET /metrics HTTP/1.1\r\nHost: [::1]\r\nAccept: \
                       Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5\r\n\r\n";
        let answer = exchange(&server, request.as_bytes());
        assert!(answer.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
        assert!(answer.ends_with("# EOF\n"), "{answer}");
        assert!(answer.contains("paternoster_up{device=\"disk1\"} 0\n"), "{answer}");
    }

    /// Is a server whose loops all answer well?
    #[test]
    fn health_is_of_the_device_loops() {
        let server = start(device_loops().into_iter().take(1).collect());
        let answer = exchange(&server, b"GET /healthz HTTP/1.0\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\r\n\r\nok\ndisk0: "), "{answer}");
    }

    /// Is a client that never ends its request told so, and disconnected?
    #[test]
    fn who_stalls_is_let_go() {
        let address = "127.0.0.1:0".parse().expect("an address");
        let server =
            HttpServer::with_patience(address, None, device_loops(), Duration::from_millis(10));
        let server = server.expect("a port");
        let answer = exchange(&server, b"GET /metr");
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }

    /// Is a monitor served under TLS beyond loopback, by whatever name it came, and one that speaks
    /// plain text, or nothing, not?
    #[test]
    fn under_tls() {
        let made = rcgen::generate_simple_self_signed(vec!["server.example".to_owned()]).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let tls = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let anywhere = "0.0.0.0:0".parse().expect("an address");
        let patience = Duration::from_millis(500);
        let server =
            HttpServer::with_patience(anywhere, Some(Arc::new(tls)), device_loops(), patience);
        let server = server.expect("a port");
        let connect =
            || TcpStream::connect(("127.0.0.1", server.local_addr().port())).expect("a server");
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("server.example").unwrap();
        let connection = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut stream = StreamOwned::new(connection, connect());
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: server.example\r\n\r\n").unwrap();
        let mut text = String::new();
        // With the end of TLS, which an end of the socket alone would not be.
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.starts_with("HTTP/1.1 200 OK") && text.contains("paternoster_up"), "{text}");
        let (mut plain, silent, mut told) = (connect(), connect(), Vec::new());
        plain.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let _reset = plain.read_to_end(&mut told);
        assert!(!told.starts_with(b"HTTP"), "{told:?}");
        assert_eq!((&silent).read(&mut [0; 64]).unwrap_or(0), 0, "its time is over");
        server.stop();
    }

    /// Is everything but loopback refused, with a word on what would be right?
    #[test]
    fn loopback_only() {
        let start =
            |text: &str| HttpServer::start(text.parse().expect("an address"), None, Vec::new());
        for address in ["0.0.0.0:9100", "[::]:9100", "192.0.2.1:9100", "[::ffff:192.0.2.1]:9100"] {
            let error = start(address).expect_err("not loopback").to_string();
            assert!(error.starts_with(&format!(
                "metrics at {address}: only loopback is served without TLS"
            )));
            assert!(error.ends_with("like 127.0.0.1:9100 or [::1]:9100"), "{error}");
        }
    }
}
