//! Who holds the identity of the service is permitted.
// room: cli

use crate::govern::Permit;
use crate::identity::Identity;
use crate::wire::ids::TenantId;

pub fn local(identity: &Identity, tenant: TenantId) -> Permit {
    Permit::local(identity, "root", Some(tenant))
}
