package broker

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/damagetest"
)

// Whatever bit of the certificate and its key is another, and wherever they are cut:
// nodes know the fingerprint, or the gateway does not start and says which file is
// damaged.
func TestCertificateDamaged(t *testing.T) {
	dir := t.TempDir()
	read := func() (string, error) {
		cert, err := certificate(dir)
		if err != nil {
			return "", err
		}
		return fingerprint(cert.Certificate[0]), nil
	}
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, filepath.Join(dir, certificateFile), certificateFile, func(a, b string) bool { return a == b }, read)
}
