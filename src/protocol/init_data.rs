//! Init data: the document that a guest is given at its launch, whose digest the CPU signs as HOST_DATA or MRCONFIGID.
//!
//! The host chooses both, so that a document says nothing until its digest is one that a policy lists; and what it says
//! counts only where the measured image compares it with the register before it believes a word of it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};

use super::error::Error;
use super::head::Kem;
use super::role::PinnedRoots;
use crate::wire::ids::{Audience, KeyId, TenantId};
use crate::wire::text::foreign;
use crate::wire::{Digest, crypto, limits};

/// The name of the agent's configuration in a document: the text of its file, verbatim.
pub const AGENT_CONFIGURATION: &str = "claviger-agent.toml";
/// The name of the digest of the agent's image in a document: the measured image starts no other.
pub const AGENT_IMAGE: &str = "claviger-agent-image";
/// The one version of the form that there is.
pub const VERSION: &str = "0.1.0";

/// The hash over the document, named by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    Sha256,
    Sha384,
    Sha512,
}

impl Algorithm {
    /// Returns the name as documents write it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha384 => "sha384",
            Self::Sha512 => "sha512",
        }
    }

    fn digest(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => crypto::sha256(&[bytes]).bytes().to_vec(),
            Self::Sha384 => crypto::sha384(&[bytes]).bytes().to_vec(),
            Self::Sha512 => crypto::sha512(&[bytes]).bytes().to_vec(),
        }
    }
}

/// The digest of an image as registries write it: `sha256:` and 64 lower-case hex digits. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageDigest(Digest<32>);

impl FromStr for ImageDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| format!("{} is no image digest; expected `sha256:` and hex", foreign(text)))?;
        let digest: Digest<32> = hex.parse()?;
        match digest.is_zero() {
            true => Err("zero is the digest of no image".to_string()),
            false => Ok(Self(digest)),
        }
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.0)
    }
}

impl Serialize for ImageDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What of the agent's configuration a request can be compared with.
///
/// Shape: the fields of these names in the agent's file, read as the agent reads them. Other fields are the agent's: it
/// refuses those that it does not know, and a service that is older than an agent need not know them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AgentNames {
    pub tenant: TenantId,
    /// Written out. Those of a file that the document only names are pinned by nothing.
    pub pins: Option<PinnedRoots>,
    #[serde(default)]
    pub keys: Vec<KeyId>,
    pub audience: Option<Audience>,
    pub kem: Option<Kem>,
}

impl AgentNames {
    /// Returns the key encapsulation that the agent uses.
    pub fn kem(&self) -> Kem {
        self.kem.unwrap_or(Kem::XWing)
    }
}

/// The document as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    version: String,
    algorithm: Algorithm,
    data: BTreeMap<String, String>,
}

/// A document that parsed. Whether it is the guest's own is not said by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitData {
    algorithm: Algorithm,
    digest: Vec<u8>,
    sent: Digest<48>,
    names: Vec<String>,
    configuration: Option<String>,
    agent: Option<AgentNames>,
    image: Option<ImageDigest>,
}

impl InitData {
    /// Parses a document.
    ///
    /// Shape: TOML in UTF-8, at most `INIT_DATA_LEN_MAX` bytes: `version` (`0.1.0`), `algorithm` (`sha256`, `sha384`,
    /// `sha512`) and a table `data` of at most `INIT_DATA_TEXTS_MAX` texts; other fields and repeated ones refused.
    /// What stands under `AGENT_CONFIGURATION` and `AGENT_IMAGE` must be what it is called; other texts are not looked
    /// at.
    ///
    /// Errors: `InitData`.
    ///
    /// Source: Kata Containers, Confidential Containers: initdata, version 0.1.0.
    ///
    /// ```
    /// use claviger::protocol::init_data::InitData;
    /// let document = b"version = '0.1.0'\nalgorithm = 'sha256'\n[data]\n'policy.rego' = 'package agent_policy'\n";
    /// let init_data = InitData::parse(document).unwrap();
    /// assert!(init_data.register::<48>().to_string().ends_with(&"0".repeat(32)));
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() > limits::INIT_DATA_LEN_MAX {
            let what = format!("expected at most {} bytes; {} given", limits::INIT_DATA_LEN_MAX, bytes.len());
            return Err(wrong(what));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
        let Document { version, algorithm, mut data } = read(text)?;
        if version != VERSION {
            return Err(wrong(format!("expected version {VERSION}; {} given", foreign(&version))));
        }
        if data.len() > limits::INIT_DATA_TEXTS_MAX {
            let count = data.len();
            let what = format!("expected at most {} texts; {count} given", limits::INIT_DATA_TEXTS_MAX);
            return Err(wrong(what));
        }
        let names = data.keys().cloned().collect();
        let configuration = data.remove(AGENT_CONFIGURATION);
        let agent = configuration.as_deref().map(agent).transpose()?;
        let image = data.get(AGENT_IMAGE).map(|image| image.parse().map_err(within(AGENT_IMAGE)));
        Ok(Self {
            algorithm,
            digest: algorithm.digest(bytes),
            sent: crypto::sha384(&[bytes]),
            names,
            configuration,
            agent,
            image: image.transpose()?,
        })
    }

    /// Returns the hash that the document names.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Computes what a register of `N` bytes holds for this document: its digest, cut at the end where it is longer,
    /// with zeros after it where it is shorter.
    pub fn register<const N: usize>(&self) -> Digest<N> {
        let mut register = [0; N];
        for (to, from) in register.iter_mut().zip(&self.digest) {
            *to = *from;
        }
        Digest::new(register)
    }

    /// Returns the SHA-384 of the bytes, whatever hash the document names: what results and entries call it by.
    pub fn sent(&self) -> Digest<48> {
        self.sent
    }

    /// Returns the names of all texts. They are foreign.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the text of the agent's configuration, if there is one.
    pub fn configuration(&self) -> Option<&str> {
        self.configuration.as_deref()
    }

    /// Returns what of the agent's configuration a request is compared with.
    pub fn agent(&self) -> Option<&AgentNames> {
        self.agent.as_ref()
    }

    /// Returns the digest of the agent's image, if the document names one.
    pub fn agent_image(&self) -> Option<ImageDigest> {
        self.image
    }
}

fn agent(text: &str) -> Result<AgentNames, Error> {
    let names: AgentNames =
        toml::from_str(text).map_err(|error| within(AGENT_CONFIGURATION)(error.message().to_string()))?;
    match names.keys.len() > limits::KEYS_MAX {
        true => Err(within(AGENT_CONFIGURATION)(format!("expected at most {} keys", limits::KEYS_MAX))),
        false => Ok(names),
    }
}

fn read(text: &str) -> Result<Document, Error> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        wrong(format!("line {line}: {}", foreign(error.message())))
    })
}

fn wrong(what: impl Into<String>) -> Error {
    Error::InitData { what: what.into() }
}

fn within(name: &'static str) -> impl Fn(String) -> Error {
    move |what| wrong(format!("{name}: {}", foreign(&what)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Code;
    use crate::wire::ids::{Mode, StoreId};

    const PINS: &str = "[pins]\nmode = \"real\"\nstore = \"01010101010101010101010101010101\"\nroots = [\n\
        \"0202020202020202020202020202020202020202020202020202020202020202\",\n\
        \"0303030303030303030303030303030303030303030303030303030303030303\",\n]\n";

    fn document(algorithm: &str, data: &str) -> String {
        format!("version = \"0.1.0\"\nalgorithm = \"{algorithm}\"\n\n[data]\n{data}")
    }

    fn configured(configuration: &str) -> Result<InitData, Error> {
        let data = format!("\"{AGENT_CONFIGURATION}\" = '''\n{configuration}'''\n");
        InitData::parse(document("sha384", &data).as_bytes())
    }

    fn refusal(text: &str) -> String {
        let error = InitData::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error.code(), Code::InitDataMalformed);
        let said = error.to_string();
        assert!(!said.contains('\n'), "{said}");
        said
    }

    #[test]
    fn a_register_holds_the_digest_cut_or_with_zeros_after_it() {
        for algorithm in ["sha256", "sha384", "sha512"] {
            let text = document(algorithm, "a = 'b'\n");
            let digest = match algorithm {
                "sha256" => crypto::sha256(&[text.as_bytes()]).bytes().to_vec(),
                "sha384" => crypto::sha384(&[text.as_bytes()]).bytes().to_vec(),
                _ => crypto::sha512(&[text.as_bytes()]).bytes().to_vec(),
            };
            let init_data = InitData::parse(text.as_bytes()).unwrap();
            assert_eq!(init_data.algorithm().text(), algorithm);
            assert_eq!(init_data.register::<32>().bytes()[..], digest[..32]);
            let mut padded = digest.clone();
            padded.resize(48, 0);
            assert_eq!(init_data.register::<48>().bytes()[..], padded);
            assert_eq!(init_data.sent(), crypto::sha384(&[text.as_bytes()]));
        }
    }

    #[test]
    fn the_digest_is_of_the_exact_bytes() {
        let text = document("sha256", "a = 'b'\n");
        let register = |text: &str| InitData::parse(text.as_bytes()).unwrap().register::<32>();
        for other in [
            format!("{text}\n"),
            format!("# same\n{text}"),
            text.replace('\n', "\r\n"),
            text.replace('\'', "\""),
        ] {
            assert_ne!(register(&text), register(&other), "{other}");
        }
    }

    #[test]
    fn only_the_known_form_is_taken() {
        let good = document("sha256", "a = 'b'\n");
        assert!(InitData::parse(good.as_bytes()).is_ok());
        assert!(InitData::parse(document("sha256", "").as_bytes()).is_ok());
        for (from, to, said) in [
            ("0.1.0", "0.2.0", "version"),
            ("version = \"0.1.0\"\n", "", "version"),
            ("sha256", "sha1", "sha1"),
            ("sha256", "SHA256", "SHA256"),
            ("algorithm = \"sha256\"\n", "", "algorithm"),
            ("[data]\na = 'b'\n", "", "data"),
            ("\n[data]", "more = 1\n[data]", "more"),
            ("a = 'b'", "a = 1", "line 5"),
            ("a = 'b'", "a = ['b']", "line 5"),
            ("a = 'b'", "a.b = 'c'", "line 5"),
            ("a = 'b'", "a = 'b'\na = 'b'", "line 6"),
            ("[data]\n", "[data]\n[data]\n", "line 5"),
            ("a = 'b'", "a = 'b", "line 5"),
        ] {
            let altered = good.replacen(from, to, 1);
            assert_ne!(altered, good, "{from}");
            assert!(refusal(&altered).contains(said), "{altered}: {}", refusal(&altered));
        }
        for bytes in [&b""[..], b"\xff", b"{}", b"version"] {
            assert!(InitData::parse(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn bounds_have_two_sides() {
        let padded = |len: usize| {
            let mut text = document("sha256", "a = 'b'\n#");
            text.push_str(&"x".repeat(len - text.len()));
            text
        };
        assert!(InitData::parse(padded(limits::INIT_DATA_LEN_MAX).as_bytes()).is_ok());
        assert!(refusal(&padded(limits::INIT_DATA_LEN_MAX + 1)).contains("at most"));
        let texts = |count: usize| {
            let data: String = (0..count).map(|at| format!("t{at} = ''\n")).collect();
            document("sha256", &data)
        };
        assert!(InitData::parse(texts(limits::INIT_DATA_TEXTS_MAX).as_bytes()).is_ok());
        assert!(refusal(&texts(limits::INIT_DATA_TEXTS_MAX + 1)).contains("texts"));
        let keys = |count: usize| {
            let keys: String = (0..count).map(|at| format!("'k{at}',")).collect();
            configured(&format!("tenant = 'acme'\nkeys = [{keys}]\n"))
        };
        assert!(keys(limits::KEYS_MAX).is_ok());
        assert!(keys(limits::KEYS_MAX + 1).is_err());
        assert!(
            InitData::parse(document("sha256", &format!("a = {}", "[".repeat(10_000))).as_bytes()).is_err()
        );
    }

    /// Strangers send these: however they nest, it costs neither the stack nor more than moments.
    #[test]
    fn no_nesting_of_keys_costs_more_than_its_length() {
        let len = limits::INIT_DATA_LEN_MAX;
        let fill = |unit: &str, room: usize| unit.repeat(room / unit.len());
        let room = len - 200;
        let hostile = [
            format!("a{} = 1\n", fill(".a", room)),
            format!("[a{}]\n", fill(".a", room)),
            format!("[[a{}]]\n", fill(".a", room)),
            format!("a = {}\n", fill("[", room)),
            format!("a = {}\n", fill("{a=", room)),
            fill("[[a]]\n", room),
            fill("[[a.b]]\n", room),
            (0..room / 12).map(|at| format!("a.b{at:06} = 1\n")).collect(),
            (0..room / 12).map(|at| format!("[a.b{at:06}]\n")).collect(),
            fill("\"\\u0041\" = ''\n", room),
        ];
        for text in hostile {
            let inside = configured(&text.replace('\'', "\"")[..text.len().min(room)]);
            assert!(inside.is_err());
            for whole in [document("sha256", &text), text] {
                assert!(InitData::parse(whole.as_bytes()).is_err());
            }
        }
    }

    #[test]
    fn names_of_ours_are_read_and_others_are_not_looked_at() {
        let init_data = configured(&format!(
            "tenant = 'acme'\nkeys = ['models/llama']\naudience = 'https://vault.example'\nretries = 3\n{PINS}"
        ))
        .unwrap();
        let agent = init_data.agent().unwrap();
        assert_eq!(
            (agent.tenant.text(), agent.keys[0].text(), agent.kem()),
            ("acme", "models/llama", Kem::XWing)
        );
        let pins = PinnedRoots {
            mode: Mode::Real,
            store: StoreId::new([1; 16]),
            roots: [Digest::new([2; 32]), Digest::new([3; 32])],
        };
        assert_eq!(agent.pins.as_ref().unwrap().id(), pins.id());
        assert!(init_data.configuration().unwrap().contains("retries = 3"));
        assert_eq!(
            (init_data.agent_image(), init_data.names()),
            (None, &[AGENT_CONFIGURATION.to_string()][..])
        );
        let others = document("sha256", "\"aa.toml\" = 'not = [toml'\n\"policy.rego\" = ''\n");
        let others = InitData::parse(others.as_bytes()).unwrap();
        assert_eq!((others.agent(), others.configuration(), others.names().len()), (None, None, 2));
    }

    #[test]
    fn what_is_called_ours_must_be_what_it_is_called() {
        for bad in ["tenant = 'A B'", "keys = ['models/llama']", "tenant = ", "tenant = 'acme'\nkem = 'rsa'"]
        {
            assert_eq!(configured(bad).unwrap_err().code(), Code::InitDataMalformed, "{bad}");
        }
        let image = |text: &str| {
            InitData::parse(document("sha256", &format!("\"{AGENT_IMAGE}\" = '{text}'\n")).as_bytes())
        };
        let right = format!("sha256:{}", "ab".repeat(32));
        assert_eq!(image(&right).unwrap().agent_image().unwrap().to_string(), right);
        let zero = format!("sha256:{}", "00".repeat(32));
        for bad in ["", "sha256:", "latest", &right[7..], &right[..70], &right.to_uppercase(), &zero] {
            assert_eq!(image(bad).unwrap_err().code(), Code::InitDataMalformed, "{bad}");
        }
    }
}
