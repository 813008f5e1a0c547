#!/bin/sh
# Makes Intel's collateral for one FMSPC: sh intel-collateral.sh FMSPC CA > collateral.json
#
# FMSPC: as `claviger verify tdx` states it of a quote. CA: `platform` where it states a platform_instance_id as well,
# else `processor`. Needs curl and python3. PCS may name a cache that has the same paths: Intel's signatures, which
# claviger checks, carry the content.
set -eu
fmspc=$1 ca=$2
pcs=${PCS:-https://api.trustedservices.intel.com}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
curl -fsS -D tcb.head -o tcb.json "$pcs/tdx/certification/v4/tcb?fmspc=$fmspc"
curl -fsS -D qe.head -o qe.json "$pcs/tdx/certification/v4/qe/identity"
curl -fsS -D pck.head -o pck.crl "$pcs/sgx/certification/v4/pckcrl?ca=$ca&encoding=der"
curl -fsS -o root.crl https://certificates.trustedservices.intel.com/IntelSGXRootCA.der
python3 - <<'PYTHON'
import json, re, urllib.parse

def signed(file, name):
    # Cut out, not parsed and written again: the signature is over these very bytes.
    shape = r'\s*\{\s*"%s"\s*:\s*(\{.*\})\s*,\s*"signature"\s*:\s*"([0-9a-fA-F]+)"\s*\}\s*' % name
    return re.fullmatch(shape, open(file, newline="").read(), re.S).groups()

def chain(file):
    # TCB-Info-Issuer-Chain, SGX-Enclave-Identity-Issuer-Chain, SGX-PCK-CRL-Issuer-Chain
    found = re.search(r"(?im)^\S*-issuer-chain:\s*(\S+)", open(file).read())
    return urllib.parse.unquote(found.group(1))

tcb_info, tcb_info_signature = signed("tcb.json", "tcbInfo")
qe_identity, qe_identity_signature = signed("qe.json", "enclaveIdentity")
print(json.dumps({
    "tcb_info": tcb_info,
    "tcb_info_signature": tcb_info_signature,
    "tcb_info_issuer_chain": chain("tcb.head"),
    "qe_identity": qe_identity,
    "qe_identity_signature": qe_identity_signature,
    "qe_identity_issuer_chain": chain("qe.head"),
    "pck_crl": open("pck.crl", "rb").read().hex(),
    "pck_crl_issuer_chain": chain("pck.head"),
    "root_ca_crl": open("root.crl", "rb").read().hex(),
}))
PYTHON
