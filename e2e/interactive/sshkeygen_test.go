//go:build e2e

package interactive_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/session/keys"
)

func TestSSHKeygen(t *testing.T) {
	const secret = "correct horse; C-c 'battery' $staple"
	everywhere(t, func(pl *place) {
		d := pl.run("ssh-keygen -t ed25519 -C me@example -f id_test")
		at := int64(0)
		d.answer(&at, `Enter passphrase \(empty for no passphrase\): \z`)
		d.waits()
		passphrase := keys.Request{Literal: secret, Keys: []string{"Enter"}}
		d.send(passphrase)
		d.answer(&at, `\nEnter same passphrase again: \z`)
		d.send(passphrase)
		d.answer(&at, `(?s)\nYour public key has been saved in id_test.pub.*\n\|.*SHA256\]-+\+`)
		d.ends(0)

		for pass, want := range map[string]bool{secret: true, "another": false} {
			out, err := exec.Command("ssh-keygen", "-y", "-P", pass, "-f", pl.path("id_test")).Output()
			if public := strings.TrimSpace(pl.read("id_test.pub")); want != (err == nil && strings.TrimSpace(string(out)) == public) {
				pl.Errorf("with %q: %v, %q; the public key is %q", pass, err, out, public)
			}
		}

		// What was typed is nowhere: not in the output, not in what is kept.
		if strings.Contains(d.output(), secret) {
			pl.Errorf("the passphrase is in the output %q", d.output())
		}
		files := 0
		err := filepath.WalkDir(pl.state, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(name)
			if bytes.Contains(data, []byte("battery")) {
				pl.Errorf("the passphrase is in %s", name)
			}
			return err
		})
		if err != nil || files < 2 {
			pl.Errorf("%d files were read: %v", files, err)
		}
	})
}
