package unit

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnits(t *testing.T) {
	for file, u := range map[string]Unit{
		"unit-system.txt": {Kind: Gateway, Program: "/usr/local/bin/corral", Dir: "/var/lib/corral", Home: "/"},
		"unit-user.txt": {Kind: Gateway, User: true, Socket: true, Program: "/home/me/my bin/corral", Dir: "/home/me/100%/corral", Home: "~",
			Args: []string{"--listen", "127.0.0.1:7777", "--workspace", `/a b"c$d\e`, "--sandbox", "all"}},
		"unit-node.txt": {Kind: Node, Program: "/usr/local/bin/corral", Dir: "/var/lib/corral", Home: "/", Args: []string{"--token-file", "/etc/corral/token"}},
	} {
		var got strings.Builder
		for _, f := range u.Files("/units") {
			got.WriteString("# " + f.Path + "\n" + f.Text)
		}
		want, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), got.String()); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

// A unit that was masked (systemctl mask) is a link to /dev/null, into which one could write.
func TestWriteReplacesALink(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("systemd is of Linux")
	}
	dir := t.TempDir()
	u := Unit{Kind: Gateway, Program: "/usr/local/bin/corral", Dir: "/var/lib/corral", Home: "/"}
	file := u.Files(dir)[0]
	if err := os.Symlink(os.DevNull, file.Path); err != nil {
		t.Fatal(err)
	}
	if err := u.Write(dir, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file.Path)
	if err != nil || string(got) != file.Text {
		t.Errorf("%q, %v", got, err)
	}
	if info, err := os.Lstat(file.Path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
}
