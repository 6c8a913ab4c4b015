//! Supervises channels: access, rendering, splitting, sending.

pub mod text;
