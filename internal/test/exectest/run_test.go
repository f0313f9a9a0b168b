//go:build linux

package exectest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

// unsignallable is an executor whose processes cannot be signalled.
type unsignallable struct{ corral.Executor }

type unsignallableProcess struct{ corral.Process }

func (x unsignallable) Start(ctx context.Context, cmd corral.Command) (corral.Process, error) {
	p, err := x.Executor.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	return unsignallableProcess{p}, nil
}

func (p unsignallableProcess) Signal(context.Context, corral.Signal) error {
	return fmt.Errorf("signal %s: %w", p.Info().ID, errors.ErrUnsupported)
}

func caseNamed(t *testing.T, name string) Case {
	i := slices.IndexFunc(Cases(), func(c Case) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no case is called %s", name)
	}
	return Cases()[i]
}

// A case declared unsupported passes when it meets errors.ErrUnsupported, and
// only then.
func TestUnsupported(t *testing.T) {
	tg := refTarget(t, "")
	sound := tg.New(t)
	for _, test := range []struct {
		name, want string
		x          corral.Executor
	}{
		{"signal/ended", "", unsignallable{sound}},
		{"signal/ended", "take it off", sound},
		{"exit/code", "take it off", unsignallable{sound}},
		{"exit/code", "without answering errors.ErrUnsupported", &localref{badWorld(t, "always exits with 0")}},
	} {
		rec := &recorder{scope: scope{TB: t}}
		caseNamed(t, test.name).unsupported(rec, tg, test.x)
		rec.end()
		got := strings.Join(rec.failures, "\n")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: failed with %q, want %q", test.name, got, test.want)
		}
	}
}

func badWorld(t *testing.T, defect string) *world {
	w := newWorld(t, t.TempDir())
	w.defect = defect
	return w
}

// Mistakes in a Target must not make cases vanish.
func TestTargetCheck(t *testing.T) {
	good := refTarget(t, "")
	for _, test := range []struct {
		want   string
		change func(*Target)
	}{
		{"", func(*Target) {}},
		{"", func(tg *Target) { tg.Unsupported = []string{"tty/*"} }},
		{"a target needs Name", func(tg *Target) { tg.Workspace = "" }},
		{"needs BaseEnv", func(tg *Target) { tg.BaseEnv = nil }},
		{"no case", func(tg *Target) { tg.Unsupported = []string{"tty/nothing"} }},
		{"pattern", func(tg *Target) { tg.Unsupported = []string{"tty/["} }},
		{"no case", func(tg *Target) { tg.Exempt = map[string]string{"tty/nothing": "because"} }},
		{"no reason", func(tg *Target) { tg.Exempt = map[string]string{"tty/size": ""} }},
	} {
		tg := good
		test.change(&tg)
		err := tg.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("check: %v, want %q", err, test.want)
		}
	}
}

func TestSummaryIsAppended(t *testing.T) {
	file := filepath.Join(t.TempDir(), "summary")
	t.Setenv(SummaryFile, file)
	appendSummary(t, "one")
	appendSummary(t, "two")
	got, err := os.ReadFile(file)
	if err != nil || string(got) != "one\ntwo\n" {
		t.Fatalf("%q, %v", got, err)
	}
}
