//! inbound.
