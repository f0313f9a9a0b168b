package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/escape"
)

func TestJudgeEscapes(t *testing.T) {
	result := func(o escape.Outcome) escape.Result {
		return escape.Result{ID: "ns/user", Tries: "makes a user namespace", Outcome: o, Detail: "it works"}
	}
	for _, tc := range []struct {
		name    string
		results []escape.Result
		status  doctor.Severity
		words   []string
	}{
		{"none", nil, doctor.Fail, []string{"no try", "not known"}},
		{"held", []escape.Result{result(escape.Held), result(escape.Held)}, doctor.OK, []string{"of 2 tries", " 2 were held"}},
		{"some not made", []escape.Result{result(escape.Held), result(escape.Unsupported)}, doctor.OK, []string{" 1 were held", "1 could not be made"}},
		{"gVisor", []escape.Result{result(escape.Inside)}, doctor.OK, []string{" 1 were held", "1 of them reached gVisor"}},
		{"escaped", []escape.Result{result(escape.Held), result(escape.Escaped)}, doctor.Fail, []string{"1 got out: ns/user (it makes a user namespace: it works)", "docs/reference/escape.md"}},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, "escape", doctor.Escapes(tc.results), tc.status, tc.words...) })
	}
}

func TestFindProber(t *testing.T) {
	a := &app{}
	if _, err := a.findProber("no-such-arch"); err == nil || !strings.Contains(err.Error(), "no-such-arch") {
		t.Errorf("another architecture: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.environ = []string{probeVar + "=" + text}
	if _, err := a.findProber("amd64"); err == nil || !strings.Contains(err.Error(), "is no program for a sandbox") {
		t.Errorf("no program: %v", err)
	}
}
