//! Changes: write, raise the epoch, append; one transaction.

use std::sync::Arc;

use super::error::Error;
use super::permit::Permit;
use super::registry::GovernTx;
use crate::audit::append::{Log, append};
use crate::audit::entry::{Entry, KeyAdded, PolicyActivated, PolicyRetired, RoleRotated, StoreCreated, Text};
use crate::audit::recorded::{Recorded, Reply};
use crate::identity::{Fresh, Identity};
use crate::keys::KeyRow;
use crate::policy::document::Policy;
use crate::policy::in_force::{Activation, Rules, check_overlap, in_force};
use crate::protocol::receipt::log_origin;
use crate::protocol::role::{Role, RoleCertificate};
use crate::wire::ids::TenantId;
use crate::wire::txn::{Staged, StoreError, Transact, Txn};
use crate::wire::{Digest, UnixSeconds, Untrusted, crypto};

/// What an operator changes.
#[derive(Debug)]
pub enum Change {
    /// A policy comes into force; one of the same name and tenant goes out of it.
    ActivatePolicy {
        document: Vec<u8>,
    },
    /// A wrapped key, or a new version of one.
    AddKey(KeyRow),
    /// The first entry of a log.
    CreateStore,
    RetirePolicy {
        tenant: TenantId,
        digest: Digest<32>,
    },
    /// A role of the service has another key from now on.
    RotateRole(RoleCertificate),
}

/// Makes a change and records it. The reply is the receipt as JSON.
///
/// Errors: `Error`; then nothing was written.
pub async fn change<S>(
    store: &S,
    identity: Arc<Identity>,
    clock: UnixSeconds,
    permit: Permit,
    change: Change,
) -> Result<Recorded, Error>
where
    S: Transact<Tx: GovernTx>,
{
    let made = store.transact::<_, Error, _>(move |txn| make(txn, &identity, clock, &permit, change));
    made.await
}

fn make<'t, T: GovernTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    clock: UnixSeconds,
    permit: &Permit,
    change: Change,
) -> Result<Staged<'t, Recorded>, Error> {
    let now = txn.ports().now(clock)?;
    let mut before = Vec::new();
    let entry = match change {
        Change::ActivatePolicy { document } => {
            let (retired, activated) = activate(txn, now, permit, document)?;
            before = retired;
            activated
        }
        Change::AddKey(row) => add_key(txn, permit, row)?,
        Change::CreateStore => {
            // The first log key stands in the log like every later one: without it nobody could check what it signed
            // once another has taken its place.
            let certificate = identity
                .public()
                .certificate(Role::Log)
                .map_err(|error| Error::Store(StoreError::Unavailable { what: error.to_string() }))?;
            before.push(rotated(identity, now, permit, certificate.clone())?);
            StoreCreated {
                store: identity.store(),
                mode: identity.mode(),
                service_root: identity.public().pins().id(),
            }
            .into()
        }
        Change::RetirePolicy { tenant, digest } => {
            permitted(permit, &tenant)?;
            if !txn.ports().retire(&tenant, &digest, now)? {
                return Err(Error::PolicyNotActive { tenant });
            }
            retired(txn, permit, tenant, digest)?
        }
        Change::RotateRole(certificate) => rotated(identity, now, permit, certificate)?,
    };
    txn.ports().raise_epoch()?;
    record(txn, identity, now, before, &entry)
}

fn permitted(permit: &Permit, tenant: &TenantId) -> Result<(), Error> {
    match permit.reaches(tenant) {
        true => Ok(()),
        false => Err(Error::NotPermitted { tenant: tenant.clone() }),
    }
}

/// A role's key goes into the log: of the platform alone, and only one that agents and auditors will believe.
fn rotated(
    identity: &Identity,
    now: UnixSeconds,
    permit: &Permit,
    certificate: RoleCertificate,
) -> Result<Entry, Error> {
    if !permit.is_platform() {
        return Err(Error::PlatformOnly);
    }
    identity.public().pins().certified(&certificate, certificate.role, now).map_err(Error::Role)?;
    Ok(RoleRotated { certificate, by: Text::cut(permit.by()) }.into())
}

/// Puts a policy into force beside the others of its tenant, none of which may select a key or list an audience of its.
fn activate<T: GovernTx>(
    txn: &mut Txn<'_, T>,
    now: UnixSeconds,
    permit: &Permit,
    document: Vec<u8>,
) -> Result<(Vec<Entry>, Entry), Error> {
    let policy = Policy::parse(&document).map_err(Error::Policy)?;
    permitted(permit, &policy.tenant)?;
    let digest = policy.digest().map_err(Error::Policy)?;
    let tenant = policy.tenant.clone();
    let mut others = Vec::new();
    let mut replaced = None;
    for activation in txn.ports().active(&tenant)? {
        let other = in_force(activation).map_err(Error::Policy)?;
        match Rules::<Fresh>::policy(&other).name == policy.name {
            true => replaced = Some(Rules::<Fresh>::digest(&other)),
            false => others.push(other),
        }
    }
    check_overlap(&policy, others.iter().map(Rules::<Fresh>::policy)).map_err(Error::Policy)?;
    let mut before = Vec::new();
    if let Some(old) = replaced {
        txn.ports().retire(&tenant, &old, now)?;
        before.push(retired(txn, permit, tenant.clone(), old)?);
    }
    let activation = Activation {
        document,
        digest,
        tenant: tenant.clone(),
        sequence: txn.ports().last_activation(&tenant)? + 1,
        approvals: Vec::new(),
    };
    // What would be refused when it is read is not put into force.
    drop(in_force(Untrusted::new(activation.clone())).map_err(Error::Policy)?);
    txn.ports().activate(&policy.name.to_string(), &activation, now)?;
    let entry = PolicyActivated {
        policy: digest,
        name: Text::cut(&policy.name.to_string()),
        replaces: replaced,
        author: None,
        approvers: Vec::new(),
        sequence: activation.sequence,
        by: Text::cut(permit.by()),
        standing: txn.ports().standing(&tenant)?,
        tenant,
    };
    Ok((before, entry.into()))
}

fn retired<T: GovernTx>(
    txn: &mut Txn<'_, T>,
    permit: &Permit,
    tenant: TenantId,
    policy: Digest<32>,
) -> Result<Entry, Error> {
    let standing = txn.ports().standing(&tenant)?;
    let by = Text::cut(permit.by());
    Ok(PolicyRetired { tenant, policy, approvers: Vec::new(), sequence: None, by, standing }.into())
}

fn add_key<T: GovernTx>(txn: &mut Txn<'_, T>, permit: &Permit, row: KeyRow) -> Result<Entry, Error> {
    let context = row.context.clone();
    permitted(permit, &context.tenant)?;
    context.check().map_err(Error::Keys)?;
    let newest = txn.ports().key(&context.tenant, &context.key)?;
    let next = newest.map_or(1, |newest| newest.context.version.saturating_add(1));
    if context.version != next {
        let (tenant, key) = (context.tenant, context.key);
        return Err(Error::KeyExists { tenant, key, version: next - 1 });
    }
    let (wrapped, custodian) = (crypto::sha256(&[&row.blob]), Text::cut(&row.custodian));
    txn.ports().insert_key(row)?;
    let standing = txn.ports().standing(&context.tenant)?;
    let entry = KeyAdded {
        tenant: context.tenant,
        key: context.key,
        version: context.version,
        selector: Text::cut(&context.selector),
        custodian,
        wrapped,
        by: Text::cut(permit.by()),
        standing,
    };
    Ok(entry.into())
}

fn record<'t, T: GovernTx>(
    txn: &mut Txn<'t, T>,
    identity: &Identity,
    now: UnixSeconds,
    before: Vec<Entry>,
    entry: &Entry,
) -> Result<Staged<'t, Recorded>, Error> {
    let unavailable = |what: String| Error::Store(StoreError::Unavailable { what });
    let origin = log_origin(identity.public().pins());
    let certificate =
        identity.public().certificate(Role::Log).map_err(|error| unavailable(error.to_string()))?;
    let log = Log { key: identity.log(), certificate, origin: &origin };
    let mut earlier = txn.stage(());
    for entry in &before {
        let appended = append(txn, log, now, entry, None)?.untold(txn);
        earlier = earlier.and(appended).map(|((), ())| ());
    }
    let appended = append(txn, log, now, entry, None)?;
    let body = serde_json::to_vec(appended.receipt()).map_err(|error| unavailable(error.to_string()))?;
    let told = appended.told(txn, Reply { status: 200, body });
    Ok(told.and(earlier).map(|(told, ())| told))
}
