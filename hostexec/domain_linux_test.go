package hostexec_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// program is where a program of this machine really is.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// loaders are those that this machine may have.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}

// What a domain does not name is not executed or written, under every supervisor,
// and the result says what was refused.
func TestDomain(t *testing.T) {
	for name, cfg := range map[string]hostexec.Config{
		"in process": {InProcess: true},
		"warden":     {WardenPath: wardenbintest.Build(t)},
	} {
		t.Run(name, func(t *testing.T) {
			in, out := testdir.New(t), testdir.New(t)
			cfg.StateDir, cfg.Workspace = filepath.Join(testdir.New(t), "state"), in
			e, err := hostexec.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
			sh, touch := program(t, "bash"), program(t, "touch")
			d := &corral.Domain{Programs: []string{sh, program(t, "cat")}, Loaders: loaders, Writable: []string{in}, Required: true, Hint: "add it"}
			for _, tc := range []struct {
				name, text string
				tty        bool
				want       corral.Exit
			}{
				{name: "named", text: "cat /dev/null"},
				{name: "on a terminal", text: "cat /dev/null", tty: true},
				{name: "not named", text: touch + " a", want: corral.Exit{Code: 126, Refused: []string{touch}}},
				{name: "not named, on a terminal", text: touch + " a", tty: true, want: corral.Exit{Code: 126, Refused: []string{touch}}},
				{name: "by the loader", text: "for l in " + strings.Join(loaders, " ") + "; do [ ! -e $l ] || $l " + touch + " a; done; exit 4", want: corral.Exit{Code: 4, Refused: []string{touch}}},
				{name: "later", text: "(setsid=1; cat /dev/null; " + touch + " a)", want: corral.Exit{Code: 126, Refused: []string{touch}}},
				{name: "written inside", text: "echo a >b"},
				{name: "written outside", text: "echo a >" + out + "/b", want: corral.Exit{Code: 1}},
			} {
				cmd := corral.Command{Args: []string{sh, "-c", tc.text}, Domain: d}
				if tc.tty {
					cmd.TTY = &corral.Size{}
				}
				p, err := e.Start(t.Context(), cmd)
				if err != nil {
					t.Fatalf("%s: %v", tc.name, err)
				}
				exit, err := p.Wait(t.Context())
				if err != nil || exit.Code != tc.want.Code || !slices.Equal(exit.Refused, tc.want.Refused) {
					t.Errorf("%s: %v, refused %q, %v", tc.name, exit, exit.Refused, err)
				}
				if diff := cmp.Diff(&corral.Enforced{Programs: true, Loaders: true, Files: true, Hint: "add it"}, p.Info().Enforced); diff != "" {
					t.Errorf("%s: in force (-want +got):\n%s", tc.name, diff)
				}
			}
			for _, file := range []string{in + "/a", out + "/b"} {
				if _, err := os.Stat(file); err == nil {
					t.Errorf("%s was written", file)
				}
			}
			// The program itself.
			p, err := e.Start(t.Context(), corral.Command{Args: []string{touch, "a"}, Domain: d})
			if err != nil {
				t.Fatal(err)
			}
			if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 126 {
				t.Errorf("a program that is not named: %v, %v", exit, err)
			}
			// What it loses is in the result, where something is in force.
			lost := []string{"It loses this."}
			for _, tc := range []struct {
				d    corral.Domain
				want []string
			}{
				{corral.Domain{Programs: []string{sh}, Loaders: loaders, Writable: []string{in}, Lost: lost}, lost},
				{corral.Domain{AnyProgram: true, AnyFile: true, Lost: lost}, nil},
			} {
				p, err := e.Start(t.Context(), corral.Command{Args: []string{sh, "-c", "true"}, Domain: &tc.d})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Wait(t.Context()); err != nil || !slices.Equal(p.Info().Warnings, tc.want) {
					t.Errorf("warnings %q, %v; want %q", p.Info().Warnings, err, tc.want)
				}
			}
			// Without one, or with one that limits nothing, there is nothing.
			for _, d := range []*corral.Domain{nil, {AnyProgram: true, AnyFile: true}} {
				p, err := e.Start(t.Context(), corral.Command{Args: []string{touch, out + "/c"}, Domain: d})
				if err != nil {
					t.Fatal(err)
				}
				if exit, err := p.Wait(t.Context()); err != nil || !exit.Success() || p.Info().Enforced != nil {
					t.Errorf("without a domain: %v, %v, %v", exit, p.Info().Enforced, err)
				}
			}
			if _, err := e.Start(t.Context(), corral.Command{Args: []string{touch}, Domain: &corral.Domain{Programs: []string{"x"}}}); !errors.Is(err, corral.ErrInvalid) {
				t.Errorf("a domain that makes no sense: %v", err)
			}
		})
	}
}
