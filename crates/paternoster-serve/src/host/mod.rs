// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host: what the system gives to a server and takes from it.
//!
//! ```text
//! as root            listen::open ─▶ Pidfile::write ─▶ (devices opened) ─▶ Account::assume
//! as another user    ──────────────────────────────────────────────────────┴─▶ clients are served
//! the end            sockets and pidfile removed, as far as the new user may
//! ```
//!
//! * [`listen`]: sockets that clients come to, opened or inherited ([`activation`]).
//! * [`peer`]: the identity of a client.
//! * [`privileges`]: switching to a less privileged user.
//! * [`allocator`]: what is large and was freed is given back.
//! * `descriptors`: how many files may be open, and how many connections fit.
//! * `plain_file`: files that are written where others could have put a link.
//! * [`notify`]: messages to a service manager.
//! * [`pidfile`], [`signals`], [`private_folder`]: what daemons need in addition.
//! * [`sandbox`]: what a server gives up before the first client comes.
//! * [`uri`]: how clients name what is served.

pub mod activation;
pub mod allocator;
pub(crate) mod descriptors;
pub mod listen;
pub mod notify;
pub(crate) mod ours;
pub mod peer;
pub mod pidfile;
pub(crate) mod plain_file;
pub mod private_folder;
pub mod privileges;
pub mod sandbox;
pub mod signals;
pub(crate) mod unix_socket;
pub mod uri;

#[cfg(test)]
pub(crate) mod scratch;
