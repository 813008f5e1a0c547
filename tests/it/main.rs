//! Flows over whole rooms and real evidence: one binary.

mod gpu;
