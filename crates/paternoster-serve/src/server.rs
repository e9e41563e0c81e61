// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: sockets, desks, control, together. To be written.

use std::sync::{Condvar, Mutex, PoisonError};

use crate::config::Config;
use crate::desk::DeskHandle;
use crate::host::listen::Socket;
use crate::host::privileges::Account;

/// How it is started, beside what is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Requests are told on standard error.
    pub verbose: bool,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    stopped: Mutex<bool>,
    stop: Condvar,
    sockets: Mutex<Vec<Socket>>,
}

impl Server {
    /// Opens everything, becomes whom the configuration names, and serves.
    ///
    /// # Errors
    /// What cannot be opened, and why.
    pub fn start(
        config: Config,
        _options: Options,
        sockets: Vec<Socket>,
    ) -> Result<Server, String> {
        // Devices, certificates, control: all that only root may open is opened before this.
        if let Some(account) = Account::of(&config.server)? {
            account.assume()?;
        }
        Ok(Server {
            stopped: Mutex::new(false),
            stop: Condvar::new(),
            sockets: Mutex::new(sockets),
        })
    }

    /// Its desks.
    pub const fn desks(&self) -> &[DeskHandle] {
        &[]
    }

    /// Asks it to end in good order: no more clients, and those that are there may finish.
    pub fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.notify_all();
    }

    /// Waits until it has ended.
    pub fn wait(&self) {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stop.wait_while(stopped, |stopped| !*stopped));
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
