package probes_test

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/test/built"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTable(t *testing.T) {
	all := probes.All()
	if len(all) < 60 {
		t.Errorf("there are %d probes", len(all))
	}
	name := regexp.MustCompile(`^[a-z]+/[a-z0-9-]+$`)
	seen, groups, killer := map[string]bool{}, map[string]bool{}, false
	for _, p := range all {
		if !name.MatchString(p.ID) || seen[p.ID] {
			t.Errorf("%q is no name, or there are two", p.ID)
		}
		seen[p.ID], groups[probes.Group(p.ID)] = true, true
		killer = killer || p.ID == probes.Killer
		if p.Tries == "" || strings.HasSuffix(p.Tries, ".") || p.Why == "" || p.Weak == "" || p.Run == nil {
			t.Errorf("%s is not complete", p.ID)
		}
		if p.GVisor != "" && p.Inside != "" {
			t.Errorf("%s both fails and succeeds on gVisor", p.ID)
		}
		if strings.ContainsAny(p.Tries+p.Why+p.GVisor+p.Inside, "|\n") {
			t.Errorf("%s does not fit into a table", p.ID)
		}
		if _, ok := probes.Groups[probes.Group(p.ID)]; !ok {
			t.Errorf("the group of %s has no title", p.ID)
		}
	}
	for _, l := range probes.Limits() {
		if !name.MatchString(l.ID) || seen[l.ID] || probes.Group(l.ID) != "neighbours" || l.Has == "" || l.Why == "" || strings.ContainsAny(l.Has+l.Why, "|\n") || l.Hold == nil || l.Need == nil {
			t.Errorf("%s is not complete, or there are two", l.ID)
		}
		seen[l.ID] = true
	}
	if len(groups) < 10 || len(groups) != len(probes.Groups) || !killer {
		t.Errorf("the groups are %v", groups)
	}
}

// A canary tells the secret to whoever reaches it, and that it did.
func TestCanary(t *testing.T) {
	program := filepath.Join(t.TempDir(), "probe")
	built.Copy(t, "cmd/corral-escape", program)
	secret, sum := escape.NewSecret()
	c, err := escape.StartCanary(secret, program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(c.Process.ShmFile); err == nil {
			t.Errorf("%s is left behind", c.Process.ShmFile)
		}
	}()
	site := escape.Site{Sum: sum, Process: c.Process}
	conn, err := net.Dial("tcp", c.Process.TCP[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := make([]byte, 256)
	n, err := conn.Read(b)
	if err != nil || !site.Is(b[:n]) {
		t.Errorf("it tells %q, %v", b[:n], err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if got := c.Touched(); len(got) > 0 {
			if got[0] != `"tcp"` {
				t.Errorf("it says %q", got)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not say that it was reached")
		}
	}
	if _, err := escape.StartCanary("", program); err == nil {
		t.Error("one without a secret begins")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"no-such"}, {"one"}, {"bomb", "no-such"}, {"nested"}} {
		var stderr bytes.Buffer
		if code := probes.Main(args, &bytes.Buffer{}, &stderr); code == 0 || stderr.Len() == 0 {
			t.Errorf("%q: exit code %d, %s", args, code, stderr.Bytes())
		}
	}
	var stdout bytes.Buffer
	if code := probes.Main([]string{"list"}, &stdout, &stdout); code != 0 || strings.Count(stdout.String(), "\n") != len(probes.All()) {
		t.Errorf("exit code %d, %s", code, stdout.Bytes())
	}
}
