//! The model provider contract, stream folding and failover.
