//! The gate `Permit`: this operator may do this.

use crate::identity::Identity;
use crate::wire::ids::TenantId;

/// This operator may make this change, in this tenant.
#[must_use]
#[derive(Debug)]
pub struct Permit {
    by: String,
    /// `None` for the platform itself.
    tenant: Option<TenantId>,
}

impl Permit {
    /// Permits a change to whoever holds the service's online keys, on the machine of the store: the platform's own
    /// administrator. What that person could do wrong stands in SECURITY.md; approvals by tenants come with operators.
    pub fn local(_: &Identity, by: &str, tenant: Option<TenantId>) -> Self {
        Self { by: by.to_string(), tenant }
    }

    /// Returns who makes the change.
    pub fn by(&self) -> &str {
        &self.by
    }

    /// Tells whether the permit is the platform's own, for what is of no tenant.
    pub fn is_platform(&self) -> bool {
        self.tenant.is_none()
    }

    /// Tells whether the permit reaches this tenant.
    pub fn reaches(&self, tenant: &TenantId) -> bool {
        self.tenant.as_ref().is_none_or(|own| own == tenant)
    }
}
