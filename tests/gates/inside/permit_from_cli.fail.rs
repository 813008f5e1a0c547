//! Nobody in `cli` permits an operator by saying so.
// room: cli
// expect: E0451 Permit` are private

use crate::govern::Permit;
use crate::wire::ids::TenantId;

pub fn mint(by: String, tenant: Option<TenantId>) -> Permit {
    Permit { by, tenant }
}
