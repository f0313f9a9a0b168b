package selfcert

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/damagetest"
)

// Whatever bit of the certificate and its key is another, and wherever they are cut:
// nodes know the fingerprint, or the gateway does not start and says which file is
// damaged.
func TestCertificateDamaged(t *testing.T) {
	const name = "server.pem"
	dir := t.TempDir()
	read := func() (string, error) {
		cert, err := Load(filepath.Join(dir, name), "a server", "do it again")
		if err != nil {
			return "", err
		}
		return Fingerprint(cert.Certificate[0]), nil
	}
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, filepath.Join(dir, name), name, func(a, b string) bool { return a == b }, read)
}
