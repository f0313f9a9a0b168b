//go:build e2e

package e2b_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
)

// suite is where E2B's own tests are, with the script that runs those that need a server:
// what CORRAL_E2B_SUITE names, or shared/e2b beside the project. They are no part of it.
func suite(t testing.TB) (dir string, ok bool) {
	if dir := os.Getenv("CORRAL_E2B_SUITE"); dir != "" {
		return dir, true
	}
	dir, err := filepath.Abs("../../../shared/e2b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err = os.Stat(filepath.Join(dir, "run.sh")); err != nil {
		t.Log("E2B's own tests and daemon are not beside the project, and CORRAL_E2B_SUITE names no other place")
	}
	return dir, err == nil
}

// egress is why tests of the suite do not pass.
const egress = "there is no egress policy yet, and the test needs the internet"

// exceptions are the tests that do not pass, with the reason.
var exceptions = map[string]string{
	"tests/sandbox/network.test.ts > allow only 1.1.1.1 allow specific IP with deny all traffic":                                            egress,
	"tests/sandbox/network.test.ts > deny specific IP address deny specific IP address":                                                     egress,
	"tests/sandbox/network.test.ts > allow takes precedence over deny allow takes precedence over deny":                                     egress,
	"tests/sandbox/network.test.ts > firewall transform injects headers injected header is reflected by the httpbin sidecar":                egress,
	"tests/sandbox/network.test.ts > updateNetwork applies new egress rules denies a previously reachable IP after update":                  egress,
	"tests/sandbox/network.test.ts > updateNetwork clears existing rules when fields are omitted omitting fields replaces all egress rules": egress,
}

// failed is a test that did not pass, in what the script says.
var failed = regexp.MustCompile(`^(?:FAIL|not run) (tests/.*?) *$`)

// Where commands are root, what they change outside of the home directory is kept as what is
// in it; and E2B's own tests of its SDK pass, but for those that are listed.
func TestRoot(t *testing.T) {
	t.Parallel()
	user, _, _ := enginetest.NewUser(t)
	address := enginetest.Dockerd(t, nil, "--userns-remap="+user)
	enginetest.CopyImage(t, address, images.Default)
	g := newRigOn(t, address, func(sandbox, _ map[string]any) { sandbox["root"] = true })
	g.install(&clients, "root.mjs")
	t.Log(g.run(g.env(), "node", "root.mjs"))
	g.nothingLeft()
	if left, err := filepath.Glob(filepath.Join(g.state, "e2b", "*.tar")); err != nil || len(left) > 0 {
		t.Errorf("%v are left: %v", left, err)
	}
	dir, ok := suite(t)
	if !ok {
		return
	}
	out, err := g.try(append(g.env(), "SUITE="+filepath.Join(g.dir, "suite")), filepath.Join(dir, "run.sh"), "--maxWorkers=3")
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	lines := strings.Split(out, "\n")
	for i, line := range lines {
		m := failed.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen[m[1]] = true
		if exceptions[m[1]] == "" {
			t.Errorf("%s\n%s", line, strings.Join(lines[i+1:min(i+2, len(lines))], ""))
		}
	}
	for name, why := range exceptions {
		if !seen[name] {
			t.Errorf("%s passes, and was not to (%s): it is no exception any more", name, why)
		}
	}
	if !strings.Contains(out, " passed, ") {
		t.Errorf("the script says no result:\n%s", out)
	}
	g.nothingLeft()
}
