//! Layered configuration with provenance.
