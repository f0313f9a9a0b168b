package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestSecretsAreChecked(t *testing.T) {
	dir := t.TempDir()
	for name, secrets := range map[string]map[string]Secret{
		"no source":     {"A": {}},
		"two":           {"A": {File: "/a", Env: "A"}},
		"a bad name":    {"../A": {Env: "A"}},
		"a hidden file": {".new-1": {Env: "A"}},
		"an empty name": {"": {Env: "A"}},
		"no whole path": {"A": {File: "a"}},
		"too many of it": func() map[string]Secret {
			m := map[string]Secret{}
			for i := range maxSecrets + 1 {
				m["S"+strings.Repeat("x", i)] = Secret{Env: "A"}
			}
			return m
		}(),
	} {
		c := Config{Engine: struct{ engine.Engine }{}, StateDir: dir, Mounts: Mounts{Secrets: secrets}}
		if err := c.complete(); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Secrets are written for the user of commands, in memory, and are gone with
// the sandbox.
func TestSecretsAreWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("of the file\n")
	t.Setenv("CORRAL_TEST_SECRET", "of the variable")
	c := Config{Engine: struct{ engine.Engine }{}, StateDir: filepath.Join(dir, "state"), Name: "box", Mounts: Mounts{Secrets: map[string]Secret{"FILE": {File: file}, "VAR": {Env: "CORRAL_TEST_SECRET"}}}}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dropSecrets(c.StateDir, ""); err != nil {
			t.Error(err)
		}
	})
	if err := c.writeSecrets(); err != nil {
		t.Fatal(err)
	}
	mount := c.mounts[0]
	if mount.Target != SecretsDir || !mount.ReadOnly || strings.HasPrefix(mount.Source, dir) {
		t.Errorf("%+v", mount)
	}
	content := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(mount.Source, name))
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(mount.Source, name))
		if err != nil || info.Mode() != 0o400 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if uid, _ := ownerOf(filepath.Join(mount.Source, name)); os.Geteuid() == 0 && uid != 65534 {
			t.Errorf("it is user %d's", uid)
		}
		return string(b)
	}
	if a, b := content("FILE"), content("VAR"); a != "of the file\n" || b != "of the variable" {
		t.Errorf("%q, %q", a, b)
	}
	// Of another container of the same sandbox: what changed, and no more.
	write("new\n")
	delete(c.Mounts.Secrets, "VAR")
	if err := c.writeSecrets(); err != nil || content("FILE") != "new\n" {
		t.Error(err)
	}
	if list, err := os.ReadDir(mount.Source); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	for name, s := range map[string]Secret{"no file": {File: file + "-none"}, "a directory": {File: dir}, "no variable": {Env: "CORRAL_TEST_NO_SUCH"}} {
		c.Mounts.Secrets = map[string]Secret{"X": s}
		if err := c.writeSecrets(); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	write(strings.Repeat("x", maxSecret+1))
	c.Mounts.Secrets = map[string]Secret{"X": {File: file}}
	if err := c.writeSecrets(); !errors.Is(err, corral.ErrInvalid) {
		t.Errorf("too large: %v", err)
	}
	if err := dropSecrets(c.StateDir, c.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(mount.Source)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
}
