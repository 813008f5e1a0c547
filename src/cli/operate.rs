//! Commands on a local store: `claviger key`, `claviger policy`, `claviger lease`.

use std::io::Read as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::config::Config;
use super::print::{print, tell};
use super::{Failure, Status, assemble, block_on, clock, files, lockdown};
use crate::custody::folder;
use crate::govern::Change;
use crate::identity::{Fresh, Identity};
use crate::keys::{KeyContext, KeyRing as _, enrol};
use crate::policy::document::Policy;
use crate::policy::in_force::{Policies as _, Rules, in_force};
use crate::protocol::role::Role;
use crate::store::Store;
use crate::wire::ids::{KeyId, Mode, TenantId};
use crate::wire::limits;
use crate::wire::secret::Secret;
use crate::wire::txn::{StoreError, Transact as _};

/// Tenant keys of a local store.
#[derive(Subcommand)]
pub enum Key {
    /// Enrol a key, or a new version of one. It is sealed to the service's enrolment key, then wrapped by the
    /// custodian.
    Add(AddKey),
    /// List the keys of a tenant.
    List(OfTenant),
}

/// Release policies of a local store.
#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file and show its digest, without a store.
    #[command(after_help = CHECK_HELP)]
    Check(CheckPolicy),
    /// Put a policy into force; one of the same name goes out of it.
    Activate(ActivatePolicy),
    /// List the policies of a tenant that are in force.
    List(OfTenant),
}

const CHECK_HELP: &str = "\
Reference values come from claviger measure, which prints the line that goes into the policy:
  measure snp: below [cpu.snp.code], measurements = [\"...\"]
  measure tdx: below [cpu.tdx.code], the registers or events that it lists
Keep the reference set beside the policy; its values are part of the policy's digest.";

#[derive(Args)]
pub struct OfTenant {
    /// The service's configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The tenant.
    #[arg(long)]
    tenant: TenantId,
}

#[derive(Args)]
pub struct AddKey {
    #[command(flatten)]
    of: OfTenant,
    /// The key's id.
    #[arg(long)]
    key: KeyId,
    /// The selector that the key belongs to, as policies name it: its id, or the beginning of ids with a `*` after it.
    /// The id itself if not given.
    #[arg(long)]
    selector: Option<String>,
    /// The file that holds the key, binary; `-` reads standard input.
    #[arg(long, value_name = "FILE")]
    from: PathBuf,
}

#[derive(Args)]
pub struct CheckPolicy {
    /// The policy, TOML or JSON.
    policy: PathBuf,
}

#[derive(Args)]
pub struct ActivatePolicy {
    /// The service's configuration file.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The policy, TOML or JSON.
    policy: PathBuf,
}

/// A local store with its identity.
struct Local {
    config: Config,
    identity: std::sync::Arc<Identity>,
    store: Store,
}

impl Local {
    async fn open(path: &std::path::Path) -> Result<Self, Failure> {
        let config = Config::read(path)?;
        let identity = assemble::identity(&config.service.dir)?;
        let opening = assemble::opening(&config.store(), &identity);
        let store = Store::open(opening).await.map_err(assemble::store_failure)?;
        Ok(Self { config, identity, store })
    }

    async fn change(&self, by: &str, what: Change) -> Result<(), Failure> {
        assemble::changed(&self.store, &self.identity, by, what).await
    }
}

impl Key {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Add(add) => block_on(add.run()),
            Self::List(of) => block_on(list_keys(of)),
        }
    }
}

impl AddKey {
    async fn run(self) -> Result<Status, Failure> {
        let local = Local::open(&self.of.config).await?;
        if local.identity.mode() == Mode::Simulated {
            return Err(Failure::Usage(
                "a simulated store keeps the key of its custodian in the memory of the service, so that what is \
                 enrolled from outside would never open; enrol keys in a real store"
                    .to_string(),
            ));
        }
        // Where memory cannot be locked, the key is in it for moments alone.
        lockdown::lock_down()?;
        let secret = self.read()?;
        let now = clock::now()?;
        let (tenant, key) = (self.of.tenant.clone(), self.key.clone());
        let newest = local.store.read::<_, StoreError, _>(move |tx| tx.key(&tenant, &key));
        let newest = newest.await.map_err(assemble::store_failure)?;
        let context = KeyContext {
            store: local.identity.store(),
            mode: local.identity.mode(),
            tenant: self.of.tenant.clone(),
            key: self.key.clone(),
            version: newest.map_or(1, |row| row.context.version.saturating_add(1)),
            selector: self.selector.clone().unwrap_or_else(|| self.key.to_string()),
            genesis: None,
        };
        let wrong = |error: crate::keys::Error| assemble::failure(&error, error.code());
        let public = local.identity.public();
        let certificate = public.certificate(Role::Enrolment).map_err(Failure::usage)?;
        let enrolment =
            enrol::seal(public.pins(), certificate, now, context.clone(), &secret).map_err(wrong)?;
        let custodian =
            folder::custodian(&local.config.service.dir, &local.identity).map_err(Failure::usage)?;
        let row =
            enrol::enrol(&local.identity, &custodian, &context, &enrolment, now).await.map_err(wrong)?;
        local.change("claviger key add", Change::AddKey(row)).await?;
        let (key, tenant, version) = (&self.key, &self.of.tenant, context.version);
        let mut text = match version {
            1 => format!("key {key} of tenant {tenant}: version 1 enrolled\n"),
            _ => format!(
                "key {key} of tenant {tenant}: version {version} enrolled; the key existed, and this version takes its \
                 place\n"
            ),
        };
        if !covered(&local, &self.of.tenant, &self.key).await? {
            text.push_str(&format!(
                "warning: no policy of tenant {tenant} that selects {key} is in force; until one is, nobody gets it\n"
            ));
        }
        Ok(tell(&text))
    }

    fn read(&self) -> Result<Secret, Failure> {
        let wrong = |what: String| Failure::Usage(format!("{}: {what}", self.from.display()));
        let bound = u64::try_from(limits::TENANT_KEY_LEN_MAX).unwrap_or(u64::MAX).saturating_add(1);
        // Of its greatest size from the start: a buffer that grew would leave pieces of the key behind, unwiped.
        let mut bytes = zeroize::Zeroizing::new(Vec::with_capacity(limits::TENANT_KEY_LEN_MAX + 2));
        match self.from.to_str() {
            Some("-") => std::io::stdin().take(bound).read_to_end(&mut bytes),
            _ => std::fs::File::open(&self.from).and_then(|file| file.take(bound).read_to_end(&mut bytes)),
        }
        .map_err(|error| wrong(error.to_string()))?;
        Ok(Secret::copied(&bytes))
    }
}

/// Tells whether a policy that is in force decides on a key.
async fn covered(local: &Local, tenant: &TenantId, key: &KeyId) -> Result<bool, Failure> {
    let tenant = tenant.clone();
    let active = local.store.read::<_, StoreError, _>(move |tx| tx.active(&tenant));
    let mut covered = false;
    for activation in active.await.map_err(assemble::store_failure)? {
        let active = in_force(activation).map_err(Failure::usage)?;
        covered |= Rules::<Fresh>::policy(&active).covers(key);
    }
    Ok(covered)
}

async fn list_keys(of: OfTenant) -> Result<Status, Failure> {
    let local = Local::open(&of.config).await?;
    let tenant = of.tenant.clone();
    let keys = local.store.read::<_, StoreError, _>(move |tx| crate::keys::KeyRing::keys(tx, &tenant));
    let mut text = format!("{:<40} {:>7} {:<10} {:<12} selector\n", "key", "version", "state", "custodian");
    for row in keys.await.map_err(assemble::store_failure)? {
        let KeyContext { key, version, selector, .. } = &row.context;
        let (key, state, custodian) = (key.text(), row.state.text(), &row.custodian);
        text.push_str(&format!("{key:<40} {version:>7} {state:<10} {custodian:<12} {selector}\n"));
    }
    print(&text)?;
    Ok(Status::Good)
}

impl PolicyCommand {
    pub fn run(self) -> Result<Status, Failure> {
        match self {
            Self::Check(check) => check.run(),
            Self::Activate(activate) => block_on(activate.run()),
            Self::List(of) => block_on(list_policies(of)),
        }
    }
}

fn parse(path: &std::path::Path) -> Result<(Vec<u8>, Policy), Failure> {
    let bytes = files::read(path)?;
    let policy = Policy::parse(&bytes)
        .map_err(|error| Failure::Usage(format!("{}: {error} ({})", path.display(), error.code())))?;
    Ok((bytes, policy))
}

fn warnings(policy: &Policy) -> Result<String, Failure> {
    let all = [policy.lint(), policy.ended(clock::now()?), policy.placeholders()].concat();
    Ok(all.iter().map(|warning| format!("warning: {warning}\n")).collect())
}

impl CheckPolicy {
    fn run(self) -> Result<Status, Failure> {
        let (_, policy) = parse(&self.policy)?;
        let digest = policy.digest().map_err(Failure::usage)?;
        let warnings = warnings(&policy)?;
        print(&format!("policy {} of tenant {}: {digest}\n{warnings}", policy.name, policy.tenant))?;
        Ok(Status::Good)
    }
}

impl ActivatePolicy {
    async fn run(self) -> Result<Status, Failure> {
        let (document, policy) = parse(&self.policy)?;
        let local = Local::open(&self.config).await?;
        let digest = policy.digest().map_err(Failure::usage)?;
        // Before the change: whoever reads along may still end the command.
        print(&warnings(&policy)?)?;
        local.change("claviger policy activate", Change::ActivatePolicy { document }).await?;
        Ok(tell(&format!(
            "policy {} of tenant {} is in force: {digest}\nno approver has signed it; every result says so\n",
            policy.name, policy.tenant
        )))
    }
}

async fn list_policies(of: OfTenant) -> Result<Status, Failure> {
    let local = Local::open(&of.config).await?;
    let tenant = of.tenant.clone();
    let active = local.store.read::<_, StoreError, _>(move |tx| tx.active(&tenant));
    let mut text = format!("{:<64} {:>8} name\n", "digest", "sequence");
    for activation in active.await.map_err(assemble::store_failure)? {
        let active = in_force(activation).map_err(Failure::usage)?;
        let (digest, name) = (Rules::<Fresh>::digest(&active), &Rules::<Fresh>::policy(&active).name);
        text.push_str(&format!("{:<64} {:>8} {name}\n", digest.to_string(), active.sequence()));
    }
    print(&text)?;
    Ok(Status::Good)
}
