//! The attestation result, verified by a JWT library that is not ours.

use std::process::Command;
use std::sync::Arc;

use claviger::http::{listen, operator};

use crate::service::{AUDIENCE, Stage};

const SCRIPT: &str = r#"
import base64, json, sys, urllib.request
import jwt
from jwt import PyJWKClient
base, issuer, audience, instance, now, token = sys.argv[1:7]
now = int(now)
local = issuer.replace("https://claviger.test", base)
document = json.load(urllib.request.urlopen(local + "/.well-known/openid-configuration"))
assert document["issuer"] == issuer, document
assert document["id_token_signing_alg_values_supported"] == ["ES384"], document
keys = PyJWKClient(document["jwks_uri"].replace("https://claviger.test", base))
# The clock of the test is not that of this machine: times are compared by hand below.
options = {"verify_exp": False, "verify_iat": False, "require": ["exp", "iat", "iss", "aud"]}
def check(token, audience=audience, issuer=issuer):
    key = keys.get_signing_key_from_jwt(token).key
    return jwt.decode(token, key, algorithms=["ES384"], audience=audience, issuer=issuer, options=options)
header = jwt.get_unverified_header(token)
assert header["typ"] == "claviger-ear+jwt" and header["alg"] == "ES384", header
claims = check(token)
assert claims["iat"] == now and claims["exp"] == now + 300, claims
assert claims["cnf"] == {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": instance}}, claims
assert sorted(claims["submods"]) == ["cpu", "gpu0"], claims
assert all(part["ear.status"] in ("affirming", "warning") for part in claims["submods"].values()), claims
assert claims["claviger.simulated"] is True and claims["claviger.binding"] == "measured-agent", claims
assert claims["eat_profile"] == "tag:github.com,2023:veraison/ear", claims
def refused(what, *arguments, **named):
    try:
        check(*arguments, **named)
    except jwt.PyJWTError:
        return
    raise SystemExit("accepted: " + what)
head, body, signature = token.split(".")
pad = lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
cut = lambda value: base64.urlsafe_b64encode(value).rstrip(b"=").decode()
claims["claviger.simulated"] = False
refused("altered claims", ".".join([head, cut(json.dumps(claims).encode()), signature]))
flipped = bytearray(pad(signature)); flipped[50] ^= 1
refused("altered signature", ".".join([head, body, cut(bytes(flipped))]))
refused("no signature", ".".join([cut(b'{"alg":"none","typ":"claviger-ear+jwt"}'), body, ""]))
refused("another audience", token, audience="https://other.example")
refused("another issuer", token, issuer=issuer + "x")
print("checked")
"#;

#[test]
fn a_stock_library_verifies_the_result() {
    let Some(python) = crate::tools::python("PyJWT") else { return };
    let stage = Stage::new("ear");
    let mut guest = stage.guest("g");
    let sent = guest.release(&stage);
    let reply = stage.attest(&sent);
    let token = stage.check_grant(&guest, &sent, &reply).attestation_result.unwrap();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let (address, serving) = stage.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let routes = operator::routes(Arc::clone(stage.service()));
        (
            address,
            tokio::spawn(listen::serve(
                listener,
                listen::Wire::Plain,
                listen::Bounds::default(),
                routes,
                stopped,
            )),
        )
    });
    let instance = claviger::wire::text::to_base64url(&guest.instance.public());
    let checked = Command::new(python)
        .args(["-c", SCRIPT, &format!("http://{address}"), "https://claviger.test/tenants/demo", AUDIENCE])
        .args([&instance, &stage.now().get().to_string(), &token])
        .output()
        .unwrap();
    stop.send_replace(true);
    stage.runtime.block_on(serving).unwrap();
    let text = [&checked.stdout[..], &checked.stderr].concat();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&text));
    assert_eq!(checked.stdout, b"checked\n");
}
