//! The `claviger` command.

fn main() {}
