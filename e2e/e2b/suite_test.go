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

// Why tests of the suite do not pass.
const (
	egress = "there is no egress policy yet, and the test needs the internet"
	root   = "there is no root in a sandbox, and its root file system is read-only"
)

// exceptions are the tests that do not pass, with the reason.
var exceptions = map[string]string{
	"tests/sandbox/network.test.ts > allow only 1.1.1.1 allow specific IP with deny all traffic":                                            egress,
	"tests/sandbox/network.test.ts > deny specific IP address deny specific IP address":                                                     egress,
	"tests/sandbox/network.test.ts > allow takes precedence over deny allow takes precedence over deny":                                     egress,
	"tests/sandbox/network.test.ts > firewall transform injects headers injected header is reflected by the httpbin sidecar":                egress,
	"tests/sandbox/network.test.ts > updateNetwork applies new egress rules denies a previously reachable IP after update":                  egress,
	"tests/sandbox/network.test.ts > updateNetwork clears existing rules when fields are omitted omitting fields replaces all egress rules": egress,
	"tests/template/build.test.ts > build template":                                                                                         root + ": its working directory is /app",
	"tests/sandbox/commands/envVars.test.ts > bash command scoped env vars":                                                                 root + ": it calls sudo",
	"tests/sandbox/files/signing.test.ts > file signing test upload file with valid signing as root user":                                   root + ": it writes to /root",
	"tests/sandbox/files/write.test.ts > write multiple files":                                                                              root + ": it writes to directories of /",
}

// failed is a test that did not pass, in what the script says.
var failed = regexp.MustCompile(`^(?:FAIL|not run) (tests/.*?) *$`)

// E2B's own tests of its SDK: those pass that can, and no others.
func TestSuite(t *testing.T) {
	dir, ok := suite(t)
	if !ok {
		return
	}
	g := newRig(t)
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
