//! x
mod chunks; mod tree; mod distances; mod shape; mod seeks;
