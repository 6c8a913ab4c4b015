//! The HTTP health endpoint.
