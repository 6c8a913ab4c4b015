//! The turn engine, lanes and the agent loop.
