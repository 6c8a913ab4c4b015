//! The gateway alone, for service managers.

fn main() {}
