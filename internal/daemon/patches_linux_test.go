package daemon

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A gateway that was killed while it patched undoes that at its next start.
func TestPatchUndoneAtStart(t *testing.T) {
	var patched string
	serveWith(t, `{sandbox: {mode: "off"}, agents: {list: [{id: "main", workspace: "WORK"}]}}`, func(work string) {
		patched = filepath.Join(work, "patched")
		journal := filepath.Join(work, ".corral-patch-cut")
		record := fmt.Sprintf(`{"version":1,"dirs":[],"changes":[{"name":"patched","was":true,"new":"%x"}]}`, sha256.Sum256([]byte("after")))
		if err := errors.Join(os.WriteFile(patched, []byte("after"), 0o644), os.Mkdir(journal, 0o700),
			os.WriteFile(filepath.Join(journal, "old-0"), []byte("before"), 0o644),
			os.WriteFile(filepath.Join(journal, "record"), []byte(record), 0o600)); err != nil {
			t.Fatal(err)
		}
	})
	if text, err := os.ReadFile(patched); string(text) != "before" {
		t.Errorf("after the start the file has %q, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(patched)); len(left) != 1 {
		t.Errorf("left in the workspace: %v, %v", left, err)
	}
}
