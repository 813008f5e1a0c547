//! Nobody outside of the crate permits an operator by saying so.
// expect: E0451 Permit` are private

use claviger::govern::Permit;
use claviger::wire::ids::TenantId;

pub fn mint(by: String, tenant: Option<TenantId>) -> Permit {
    Permit { by, tenant }
}
