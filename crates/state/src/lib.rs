//! SQLite behind the bus contract.
