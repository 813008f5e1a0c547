//! Nobody outside of the crate puts a policy into force by saying so.
// expect: E0451 InForce` are private

use claviger::policy::{InForce, Policy};
use claviger::wire::Digest;

pub fn mint(policy: Policy, digest: Digest<32>, sequence: u64) -> InForce {
    InForce { policy, digest, sequence }
}
