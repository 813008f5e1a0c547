//! `claviger identity certify`: a role gets a new key, and the log its entry.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::print::tell;
use super::{Failure, Status, assemble, clock};
use crate::audit::ledger::StoredLog as _;
use crate::audit::{Entry, StoredEntry};
use crate::custody::folder;
use crate::govern::Change;
use crate::identity::Identity;
use crate::protocol::role::{Role, RoleCertificate};
use crate::store::Store;
use crate::wire::UnixSeconds;
use crate::wire::txn::{StoreError, Transact as _};

/// Entries read at a time.
const BATCH: u64 = 256;

#[derive(Args)]
pub struct Certify {
    /// The folder that `claviger init` made.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The folder that holds a root key, brought here for this command alone.
    #[arg(long, value_name = "DIR")]
    roots: PathBuf,
    /// The role that gets a new key.
    #[arg(long, value_parser = roles())]
    role: Role,
    /// Days until the certificate ends.
    #[arg(long, default_value_t = 90, value_name = "DAYS")]
    days: u32,
}

/// Takes the roles by name.
fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::text))
        .try_map(|name| Role::ALL.into_iter().find(|role| role.text() == name).ok_or("no such role"))
}

impl Certify {
    pub async fn run(self) -> Result<Status, Failure> {
        let (now, role) = (clock::now()?, self.role);
        // Whatever can be in the way is met before the key is replaced; that certificates have ended is none of it.
        let identity = assemble::identity_of_any_date(&self.dir)?;
        let opening = assemble::opening(&self.dir.join("store.db"), &identity);
        let store = Store::open(opening).await.map_err(assemble::store_failure)?;
        let mut recorded = read(&store).await?;
        record(&store, &identity, &mut recorded, now, None).await?;
        let report = folder::certify(&self.dir, &self.roots, role, now, self.days).map_err(Failure::usage)?;
        let made = format!("role {} has a new key, in force {}", role.text(), report.window);
        let told = async {
            let identity = assemble::identity_of_any_date(&self.dir)?;
            record(&store, &identity, &mut recorded, now, Some(role)).await
        };
        let told = told.await.map_err(|failure| {
            Failure::Unavailable(format!(
                "{made}, of which the log has no entry yet: {failure}; mend that and certify again before the \
                 service is restarted"
            ))
        })?;
        let waits = match told {
            Told::All => "",
            Told::Later => {
                "its entry waits: the certificate of the log's own key has ended; certify role log, which writes it\n"
            }
        };
        Ok(tell(&format!(
            "{made}\n{waits}restart the service to use it; agents need nothing, since the same roots certify it\n"
        )))
    }
}

/// Whether the log tells of the certificates.
enum Told {
    All,
    /// The log's own certificate is not in force: nobody would believe what its key signs now.
    Later,
}

/// Records the certificates in force that the log lacks, be it that a call was stopped before, or that the log's own
/// certificate had ended; that of `renewed` among them.
async fn record(
    store: &Store,
    identity: &Arc<Identity>,
    recorded: &mut Vec<RoleCertificate>,
    now: UnixSeconds,
    renewed: Option<Role>,
) -> Result<Told, Failure> {
    let lacking = lacking(identity, recorded, now, renewed)?;
    if lacking.is_empty() {
        return Ok(Told::All);
    }
    let log = identity.public().certificate(Role::Log).map_err(Failure::usage)?;
    if !log.window().contains(now) {
        return Ok(Told::Later);
    }
    for certificate in lacking {
        let change = Change::RotateRole(certificate.clone());
        assemble::changed(store, identity, "claviger identity certify", change).await?;
        recorded.push(certificate);
    }
    Ok(Told::All)
}

/// Lists the certificates in force that the log lacks, that of the log first: it signs what follows.
fn lacking(
    identity: &Identity,
    recorded: &[RoleCertificate],
    now: UnixSeconds,
    renewed: Option<Role>,
) -> Result<Vec<RoleCertificate>, Failure> {
    // A log begins with the certificate of its first key. Those made together with it were never rotated.
    let first = recorded.first().map(RoleCertificate::window);
    let mut lacking = Vec::new();
    for role in [Role::Log, Role::Enrolment, Role::Reply, Role::Result] {
        let certificate = identity.public().certificate(role).map_err(Failure::usage)?;
        let rotated = renewed == Some(role) || first != Some(certificate.window());
        if rotated && certificate.window().contains(now) && !recorded.contains(certificate) {
            lacking.push(certificate.clone());
        }
    }
    Ok(lacking)
}

/// Reads the certificates that the log tells of, in its order.
async fn read(store: &Store) -> Result<Vec<RoleCertificate>, Failure> {
    let read = store.read::<_, StoreError, _>(|tx| {
        let (mut found, mut from) = (Vec::new(), 0);
        loop {
            let rows = tx.rows(from, BATCH)?;
            let Some(last) = rows.last() else { return Ok(found) };
            from = last.index.saturating_add(1);
            found.extend(rows.into_iter().filter_map(|row| certificate(&row.entry.ok()?)));
        }
    });
    read.await.map_err(assemble::store_failure)
}

fn certificate(entry: &StoredEntry) -> Option<RoleCertificate> {
    // Of a long log few entries are worth parsing.
    if entry.leaf.kind != "role_rotated" {
        return None;
    }
    match Entry::parse(&entry.body) {
        Ok(Entry::RoleRotated(body)) => Some(body.certificate),
        Ok(_) | Err(_) => None,
    }
}
