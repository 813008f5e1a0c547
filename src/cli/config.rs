//! The service's configuration: a TOML file, every field known, every default safe.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::Failure;
use super::files;
use crate::http::listen::Bounds;

/// Seconds between two looks at the folder of endorsements: beyond an hour a new revocation list would wait too long.
const LOOK_S_MAX: u32 = 3_600;

/// Configuration of `claviger serve` and of the commands that work on its store.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub service: ServiceSection,
    pub guest: ListenerSection,
    pub operator: ListenerSection,
    pub health: HealthSection,
    pub endorsements: EndorsementsSection,
}

/// Who the service is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSection {
    /// The folder that `claviger init` made.
    pub dir: PathBuf,
    /// The SQLite file; `store.db` in `dir` if not given.
    pub store: Option<PathBuf>,
    /// Address below which results are issued, `https://...` without a slash at the end.
    pub issuer: String,
    /// Trusts simulated vendors, in a store that was created as simulated. For tests and the demo alone.
    #[serde(default)]
    pub danger_simulated_vendors: bool,
}

/// A listener.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerSection {
    pub listen: SocketAddr,
    /// PEM certificate chain of the listener, leaf first.
    pub tls_certificate: Option<PathBuf>,
    /// PEM private key, PKCS#8.
    pub tls_key: Option<PathBuf>,
    /// Speaks plain HTTP; taken on a loopback address alone.
    #[serde(default)]
    pub danger_plaintext: bool,
    /// Connections at a time.
    pub connections_max: Option<u16>,
    /// Connections of one address at a time; all of them where a balancer speaks for everybody.
    pub connections_of_one_address_max: Option<u16>,
    /// Seconds for a TLS handshake, and for the head of a request.
    pub head_s_max: Option<u16>,
    /// Seconds for the body of a request.
    pub body_s_max: Option<u16>,
}

impl ListenerSection {
    /// Returns the bounds on connections.
    pub fn bounds(&self) -> Bounds {
        let unless = Bounds::default();
        Bounds {
            connections_max: self.connections_max.unwrap_or(unless.connections_max),
            of_one_address_max: self.connections_of_one_address_max.unwrap_or(unless.of_one_address_max),
            head_s_max: self.head_s_max.unwrap_or(unless.head_s_max),
            body_s_max: self.body_s_max.unwrap_or(unless.body_s_max),
        }
    }
}

/// The health listener: plain HTTP without secrets.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthSection {
    pub listen: SocketAddr,
}

/// Where endorsements come from.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndorsementsSection {
    /// A folder of certificates, revocation lists, RIMs and OCSP answers.
    pub dir: PathBuf,
    /// Seconds for which what was found there is taken without looking again.
    #[serde(default = "look_s")]
    pub look_s: u32,
}

fn look_s() -> u32 {
    1
}

impl Config {
    /// Reads a configuration; relative paths in it are relative to its folder.
    ///
    /// Errors: `Failure::Usage` naming file, field and line.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::Usage(format!("{}: {what}", path.display()));
        let bytes = files::read(path)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("expected UTF-8 text".to_string()))?;
        let mut config: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let base = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let resolve = |path: &mut PathBuf| *path = base.join(&*path);
        resolve(&mut config.service.dir);
        resolve(&mut config.endorsements.dir);
        let optional =
            [&mut config.service.store, &mut config.guest.tls_certificate, &mut config.guest.tls_key];
        optional.into_iter().flatten().for_each(resolve);
        let optional = [&mut config.operator.tls_certificate, &mut config.operator.tls_key];
        optional.into_iter().flatten().for_each(resolve);
        let issuer = &config.service.issuer;
        if !issuer.starts_with("https://") || issuer.ends_with('/') || issuer.len() > 256 {
            return Err(wrong("service.issuer: expected https://... without a slash at the end".to_string()));
        }
        if config.endorsements.look_s > LOOK_S_MAX {
            return Err(wrong(format!("endorsements.look_s: expected at most {LOOK_S_MAX} seconds")));
        }
        for (name, listener) in [("guest", &config.guest), ("operator", &config.operator)] {
            let Bounds { connections_max, of_one_address_max, head_s_max, body_s_max } = listener.bounds();
            if head_s_max == 0 || body_s_max == 0 {
                return Err(wrong(format!(
                    "{name}: expected head_s_max and body_s_max of at least 1 second"
                )));
            }
            if of_one_address_max == 0 || of_one_address_max > connections_max {
                return Err(wrong(format!(
                    "{name}: expected connections_of_one_address_max of 1 to connections_max, {connections_max}"
                )));
            }
            let tls = listener.tls_certificate.is_some() && listener.tls_key.is_some();
            match (tls, listener.danger_plaintext) {
                (true, false) => {}
                (false, true) if listener.listen.ip().is_loopback() => {}
                (false, true) => {
                    return Err(wrong(format!(
                        "{name}: plain HTTP is taken on a loopback address alone; give tls_certificate and tls_key"
                    )));
                }
                (true, true) => {
                    return Err(wrong(format!(
                        "{name}: give a TLS certificate or danger_plaintext, not both"
                    )));
                }
                (false, false) => {
                    return Err(wrong(format!("{name}: give tls_certificate and tls_key")));
                }
            }
        }
        Ok(config)
    }

    /// Returns the SQLite file.
    pub fn store(&self) -> PathBuf {
        self.service.store.clone().unwrap_or_else(|| self.service.dir.join("store.db"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(change: impl FnOnce(String) -> String) -> Result<Config, Failure> {
        let text = change(include_str!("../../deploy/service.example.toml").to_string());
        let name = format!("claviger-config-{}-{:p}.toml", std::process::id(), &raw const text);
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let config = Config::read(&path);
        std::fs::remove_file(path).unwrap();
        config
    }

    #[test]
    fn the_example_is_good_and_its_mistakes_are_named() {
        let config = parsed(|text| text).unwrap();
        assert_eq!(config.store(), Path::new("/var/lib/claviger/store.db"));
        let changes: [(&str, &str, &str); 10] = [
            ("[guest]\n", "[guest]\nbody_s_max = 0\n", "body_s_max"),
            ("[guest]\n", "[guest]\nconnections_of_one_address_max = 1025\n", "guest"),
            ("[operator]\n", "[operator]\nconnections_max = 0\n", "operator"),
            ("[endorsements]\n", "[endorsements]\nlook_s = 3601\n", "look_s"),
            ("issuer = \"https", "issuer = \"http", "service.issuer"),
            ("[guest]\n", "[guest]\nspeed = 1\n", "speed"),
            ("tls_key = \"/etc/claviger/tls.key\"", "danger_plaintext = true", "guest"),
            ("listen = \"0.0.0.0:8443\"", "listen = \"0.0.0.0\"", "listen"),
            ("[endorsements]", "[endorsement]", "endorsement"),
            ("dir = \"/var/lib/claviger\"\n", "", "dir"),
        ];
        for (from, to, named) in changes {
            let error = parsed(|text| {
                assert!(text.contains(from), "{from}");
                text.replacen(from, to, 1)
            });
            let text = error.map(|_| ()).unwrap_err().to_string();
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn plain_http_stays_on_loopback() {
        let plain = |address: &str| {
            parsed(|text| {
                let tls = "tls_certificate = \"/etc/claviger/tls.pem\"\ntls_key = \"/etc/claviger/tls.key\"";
                text.replace(tls, "danger_plaintext = true")
                    .replace("10.0.0.5:8444", "127.0.0.1:8444")
                    .replace("0.0.0.0:8443", address)
            })
        };
        plain("127.0.0.1:8443").unwrap();
        let text = plain("10.0.0.1:8443").map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("loopback"), "{text}");
    }
}
