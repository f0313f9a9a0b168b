package unit

import (
	"os"
	"path/filepath"
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
