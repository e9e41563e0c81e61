// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles: how other threads speak to a loop.

use std::fmt;
use std::sync::{Arc, Mutex};

use crate::control::order::{Answer, Order};
use crate::locked::locked;

type Ask = dyn Fn(Order) -> Answer + Send + Sync;

/// Sends orders to a loop; cheap to clone.
#[derive(Clone)]
pub struct DeviceLoopHandle {
    /// The device's name.
    pub device: String,
    /// Names of the loop's volumes.
    volumes: Arc<Mutex<Vec<String>>>,
    ask: Arc<Ask>,
}

impl DeviceLoopHandle {
    /// A handle whose orders are answered by `ask`, which waits for the answer for a bounded time.
    pub fn new(
        device: String,
        volumes: Vec<String>,
        ask: impl Fn(Order) -> Answer + Send + Sync + 'static,
    ) -> DeviceLoopHandle {
        DeviceLoopHandle { device, volumes: Arc::new(Mutex::new(volumes)), ask: Arc::new(ask) }
    }

    /// The names of its volumes.
    pub fn volumes(&self) -> Vec<String> {
        locked(&self.volumes).clone()
    }

    /// Sets its volumes.
    pub(crate) fn has_volumes(&self, names: Vec<String>) {
        *locked(&self.volumes) = names;
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    /// Why not, in words for the user.
    pub fn ask(&self, order: Order) -> Answer {
        (self.ask)(order)
    }
}

impl fmt::Debug for DeviceLoopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceLoopHandle")
            .field("device", &self.device)
            .field("volumes", &self.volumes)
            .finish_non_exhaustive()
    }
}
