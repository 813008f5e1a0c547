//! Nobody in `govern` puts a policy into force by saying so.
// room: govern
// expect: E0451 InForce` are private

use crate::policy::{InForce, Policy};
use crate::wire::Digest;

pub fn mint(policy: Policy, digest: Digest<32>, sequence: u64) -> InForce {
    InForce { policy, digest, sequence }
}
