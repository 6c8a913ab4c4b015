//! outbound.
