package hub

import (
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/damagetest"
)

// Whatever bit of the gateway's key is another, and wherever it is cut: it is the same
// key, or the gateway does not start and says which file is damaged.
func TestKeyDamaged(t *testing.T) {
	dir := t.TempDir()
	read := func() (string, error) {
		key, err := ownKey(dir)
		if err != nil {
			return "", err
		}
		defer key.Wipe()
		return key.PublicKey()
	}
	if _, err := read(); err != nil {
		t.Fatal(err)
	}
	damagetest.File(t, filepath.Join(dir, keyFile), keyFile, func(a, b string) bool { return a == b }, read)
}
