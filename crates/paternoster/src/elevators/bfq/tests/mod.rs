// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of BFQ, one by one, and what it guarantees.

use super::entity::Standing;
use super::*;
use crate::client::Class;

mod engine;
