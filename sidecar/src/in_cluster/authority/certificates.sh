#!/bin/sh
# Writes certificates.pem beside this file: what tests.rs shows to the verifier. All keys but one are thrown away. Needs openssl 3.
set -eu
out=$(cd "$(dirname "$0")" && pwd)/certificates.pem
work=$(mktemp -d)
cd "$work"
: > "$out"
server='subjectAltName=DNS:api.test,IP:127.0.0.1'

keep() { { echo "= $1"; openssl x509 -in "$1.pem"; } >> "$out"; }
key() { # NAME KIND
    case $2 in
    rsa*) openssl genrsa -out "$1.key" "${2#rsa}" 2>/dev/null ;;
    ed25519) openssl genpkey -algorithm ed25519 -out "$1.key" ;;
    *) openssl ecparam -name "$2" -genkey -noout -out "$1.key" ;;
    esac
}
own() { # NAME SUBJECT HASH EXTENSION...: signed by itself
    name=$1 subject=$2 hash=$3
    shift 3
    { printf '[req]\ndistinguished_name=d\n[d]\n[v3]\n'; printf '%s\n' "$@"; } > "$name.cnf"
    openssl req -x509 -new -key "$name.key" "-$hash" -subj "/CN=$subject" -days 36500 -config "$name.cnf" -extensions v3 -out "$name.pem"
    keep "$name"
}
by() { # ISSUER NAME SUBJECT HASH EXTENSION...: signed by ISSUER
    issuer=$1 name=$2 subject=$3 hash=$4
    shift 4
    printf '%s\n' "$@" > "$name.ext"
    openssl req -new -key "$name.key" -subj "/CN=$subject" -out "$name.csr" 2>/dev/null
    # shellcheck disable=SC2086
    openssl x509 -req -in "$name.csr" -CA "$issuer.pem" -CAkey "$issuer.key" -CAcreateserial "-$hash" ${options:-} -days 36500 \
        -extfile "$name.ext" -out "$name.pem" 2>/dev/null
    keep "$name"
}
ca=basicConstraints=critical,CA:TRUE
leaf=basicConstraints=CA:FALSE

key self rsa2048
own self home sha256 "$ca" "$server"
cp self.key self-again.key
own self-again home sha256 "$ca" "$server"
key self-leaf prime256v1
own self-leaf home sha256 "$leaf" "$server"
cp self-leaf.key self-leaf-again.key
own self-leaf-again home sha256 "$leaf" "$server"
key by-self-leaf prime256v1
by self-leaf by-self-leaf api sha256 "$leaf" "$server"
key no-names prime256v1
own no-names api.test sha256 "$ca"

key ca prime256v1
own ca ca sha256 "$ca"
key ca-other prime256v1
own ca-other ca sha256 "$ca"
for name in plain ca-true ca-true-0 for-clients for-any sha512 by-hash-sha1; do key "$name" prime256v1; done
by ca plain api sha256 "$leaf" "$server"
by ca ca-true api sha256 "$ca" "$server"
by ca ca-true-0 api sha256 "$ca,pathlen:0" "$server" keyUsage=keyCertSign,digitalSignature
by ca for-clients api sha256 "$leaf" "$server" extendedKeyUsage=clientAuth
by ca for-any api sha256 "$leaf" "$server" extendedKeyUsage=anyExtendedKeyUsage
by ca sha512 api sha512 "$leaf" "$server"
by ca by-hash-sha1 api sha1 "$leaf" "$server"
key p521-key secp521r1
by ca p521-key api sha256 "$leaf" "$server"
{ echo "= p521-key.key"; openssl ec -in p521-key.key 2>/dev/null; } >> "$out"
key rsa1024-key rsa1024
by ca rsa1024-key api sha256 "$leaf" "$server"

key middle prime256v1
by ca middle middle sha256 "$ca,pathlen:0"
for name in by-middle ca-true-by-middle; do key "$name" prime256v1; done
by middle by-middle api sha256 "$leaf" "$server"
by middle ca-true-by-middle api sha256 "$ca" "$server"

for curve in secp384r1 secp521r1; do
    key "ca-$curve" "$curve"
    own "ca-$curve" "ca-$curve" sha512 "$ca"
    for hash in sha256 sha384 sha512; do
        key "by-$curve-$hash" prime256v1
        by "ca-$curve" "by-$curve-$hash" api "$hash" "$leaf" "$server"
    done
done
key ca-rsa1024 rsa1024
own ca-rsa1024 ca-rsa1024 sha256 "$ca"
key by-rsa1024 prime256v1
by ca-rsa1024 by-rsa1024 api sha256 "$leaf" "$server"
key ca-rsa2048 rsa2048
own ca-rsa2048 ca-rsa2048 sha256 "$ca"
key by-rsa-pss prime256v1
options='-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:32' by ca-rsa2048 by-rsa-pss api sha256 "$leaf" "$server"
key by-rsa-sha512 rsa2048
options='' by ca-rsa2048 by-rsa-sha512 api sha512 "$leaf" "$server"
key ca-ed25519 ed25519
printf '[req]\ndistinguished_name=d\n[d]\n[v3]\n%s\n' "$ca" > ed.cnf
openssl req -x509 -new -key ca-ed25519.key -subj /CN=ca-ed25519 -days 36500 -config ed.cnf -extensions v3 -out ca-ed25519.pem
keep ca-ed25519
key by-ed25519 ed25519
printf '%s\n' "$leaf" "$server" > ed.ext
openssl req -new -key by-ed25519.key -subj /CN=api -out ed.csr
openssl x509 -req -in ed.csr -CA ca-ed25519.pem -CAkey ca-ed25519.key -CAcreateserial -days 36500 -extfile ed.ext -out by-ed25519.pem 2>/dev/null
keep by-ed25519
rm -r "$work"
