//! The durable queue contract, and the in-process bus.
