package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
)

// check compares the status of a finding, and looks for words in it.
func check(t *testing.T, name string, got doctor.Finding, status doctor.Severity, words ...string) {
	t.Helper()
	all := got.Summary + " " + got.Meaning + " " + got.Fix
	if got.Status != status || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) }) {
		t.Errorf("%s: %s %q, want %s and %q", name, got.Status, all, status, words)
	}
}

// fakeImages is an images.Engine that has one image, or fails.
type fakeImages struct {
	images.Engine
	list  []images.EngineImage
	image images.EngineImage
	err   error
}

func (f fakeImages) Images(context.Context, string) ([]images.EngineImage, error) {
	return f.list, nil
}

func (f fakeImages) Image(context.Context, string) (images.EngineImage, error) {
	return f.image, f.err
}

func TestCheckMode(t *testing.T) {
	check(t, "off", checkMode(daemon.ModeOff, false), doctor.Warn, "config set sandbox.mode all", "CORRAL_SANDBOX=all", "no container")
	check(t, "off, required", checkMode(daemon.ModeOff, true), doctor.Warn, "refused")
	check(t, "all", checkMode(daemon.ModeAll, false), doctor.OK)
	check(t, "required", checkMode(daemon.ModeRequired, false), doctor.OK)
}

func TestDiagnosis(t *testing.T) {
	for want, of := range map[doctor.Severity][]doctor.Severity{
		doctor.OK: {doctor.OK, doctor.OK}, doctor.Warn: {doctor.OK, doctor.Warn, doctor.OK}, doctor.Fail: {doctor.Warn, doctor.Fail, doctor.Warn},
	} {
		var checks []doctor.Finding
		for _, s := range of {
			checks = append(checks, doctor.Finding{Status: s})
		}
		if got := newDiagnosis(checks).Status; got != want {
			t.Errorf("%v: %s", of, got)
		}
	}
}
