// Package selfcert makes a self-signed certificate for a server. Clients recognise it
// by its fingerprint.
package selfcert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/state/atomicfile"
)

// Fingerprint is the SHA-256 of a certificate, in hexadecimal.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Load loads the certificate and its key from a file that only its owner can use, or
// makes them. For errors, what names the server, and lost says what to do if the
// certificate is lost.
func Load(path, what, lost string) (tls.Certificate, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = newCertificate(); err == nil {
			err = atomicfile.Write(path, data, atomicfile.Options{Durable: true})
		}
	}
	if err != nil {
		return tls.Certificate{}, corral.Errorf(corral.ErrUnavailable, "see whether the state directory can be read and written, and its disk is full",
			"cannot read or make the certificate of %s: %w", what, err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return tls.Certificate{}, corral.Errorf(corral.ErrDenied, "see who changed it, then make it a file that only its owner can read and write (0600)",
			"%s can be used by others (%v), which has the certificate of %s and its key", path, info.Mode(), what)
	}
	cert, err := tls.X509KeyPair(data, data)
	if err == nil {
		// Clients only compare its fingerprint: with a flipped bit they would no longer
		// recognise it.
		err = cert.Leaf.CheckSignature(cert.Leaf.SignatureAlgorithm, cert.Leaf.RawTBSCertificate, cert.Leaf.Signature)
	}
	if err != nil {
		return tls.Certificate{}, corral.Errorf(corral.ErrUnavailable, "put back a copy of it; or remove it, and "+lost,
			"%s is damaged, which has the certificate of %s and its key: %w", path, what, err)
	}
	return cert, nil
}

func newCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	number, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: "corral gateway"}, DNSNames: []string{"corral"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(100, 0, 0), // it is pinned, so it cannot be renewed
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}

// Pinned is TLS with a server whose certificate has that fingerprint or, if want is
// empty, one that the machine trusts. The hint says what to do about another
// certificate.
func Pinned(want string, version uint16, hint string) *tls.Config {
	if want == "" {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &tls.Config{
		MinVersion: version,
		// The fingerprint identifies the certificate, and not its issuer.
		InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			if got := Fingerprint(c.PeerCertificates[0].Raw); got != strings.ToLower(want) {
				return corral.Errorf(corral.ErrDenied, hint, "the gateway's certificate has the fingerprint %s, and not %s", got, want)
			}
			return nil
		},
	}
}
