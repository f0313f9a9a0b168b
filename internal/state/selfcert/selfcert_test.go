package selfcert

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
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

// A certificate is not used whose key others may have.
func TestReadableByOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.pem")
	if _, err := Load(path, "a server", "do it again"); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]error{0o640: corral.ErrDenied, 0o604: corral.ErrDenied, 0o600: nil, 0o400: nil} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, "a server", "do it again")
		if !errors.Is(err, want) || want != nil && (!strings.Contains(err.Error(), path) || !strings.Contains(corral.Hint(err), "0600")) {
			t.Errorf("%v: %v (%s)", mode, err, corral.Hint(err))
		}
	}
}
