//! Supervises channels: access, rendering, splitting, sending.
