package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"time"
)

// authority signs the serving certificate of API server and fault proxy and the client certificates of nodes.
// One authority for both servers, because a client that goes through the proxy must not notice.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "csi-cluster-ca"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert, key}, nil
}

// issue writes certFile and keyFile for the given subject. Names that parse as IP addresses become IP SANs; with no
// names at all the certificate is for a client.
func (a *authority) issue(certFile, keyFile string, subject pkix.Name, names ...string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     a.cert.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(names) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	if err := writePEM(certFile, "CERTIFICATE", der, 0o644); err != nil {
		return err
	}
	return writeKey(keyFile, key)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(file, "PRIVATE KEY", der, 0o600)
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}

// firstServiceIP is the address of the "kubernetes" Service in serviceRange.
const (
	serviceRange   = "10.0.0.0/24"
	firstServiceIP = "10.0.0.1"
)

var serviceAddress = [4]byte{10, 0, 0, 1}

// writePKI creates the authority, the serving certificate and the ServiceAccount signing key.
func writePKI(l layout) (*authority, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	if err := writePEM(l.caFile(), "CERTIFICATE", ca.cert.Raw, 0o644); err != nil {
		return nil, err
	}
	err = ca.issue(l.pki("serving.crt"), l.pki("serving.key"), pkix.Name{CommonName: "kube-apiserver"},
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", firstServiceIP)
	if err != nil {
		return nil, err
	}
	signing, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if err := writeKey(l.pki("sa.key"), signing); err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(&signing.PublicKey)
	if err != nil {
		return nil, err
	}
	return ca, writePEM(l.pki("sa.pub"), "PUBLIC KEY", public, 0o644)
}

// staticUser is a line of the token file. Tokens, not client certificates, because tokens pass a proxy that ends TLS.
type staticUser struct{ file, name, group string }

const (
	adminUser             = "admin"
	controllerManagerUser = "kube-controller-manager"
	schedulerUser         = "kube-scheduler"
)

func staticUsers() []staticUser {
	return []staticUser{
		{adminUser, "admin", "system:masters"},
		{controllerManagerUser, "system:kube-controller-manager", ""},
		{schedulerUser, "system:kube-scheduler", ""},
	}
}

// writeTokens writes the API server's token file and one file per user, and returns token by file name.
func writeTokens(l layout) (map[string]string, error) {
	var table strings.Builder
	tokens := map[string]string{}
	for i, u := range staticUsers() {
		raw := make([]byte, 16)
		if _, err := rand.Read(raw); err != nil {
			return nil, err
		}
		token := hex.EncodeToString(raw)
		tokens[u.file] = token
		fmt.Fprintf(&table, "%s,%s,uid-%d,%q\n", token, u.name, i, u.group)
		if err := os.WriteFile(l.tokenFile(u.file), []byte(token), 0o600); err != nil {
			return nil, err
		}
	}
	return tokens, os.WriteFile(l.pki("tokens.csv"), []byte(table.String()), 0o600)
}
