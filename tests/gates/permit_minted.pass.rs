//! Who holds the identity of the service is permitted.

use claviger::govern::Permit;
use claviger::identity::Identity;
use claviger::wire::ids::TenantId;

pub fn local(identity: &Identity, tenant: TenantId) -> Permit {
    Permit::local(identity, "root", Some(tenant))
}
