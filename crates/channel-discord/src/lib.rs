//! Discord over its gateway and REST API.
