package hostexec

import (
	"slices"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
)

// Each caller of one executor has its own rules, and not those of another.
func TestEnvRules(t *testing.T) {
	c := Config{Workspace: "/w", Environ: []string{"PATH=/usr/bin", "GH_TOKEN=hush", "OTHER_TOKEN=hush"}, Keep: []string{"OTHER_TOKEN"}}
	theirs := pathenv.WithRules(t.Context(), pathenv.Rules{EnvPath: pathenv.EnvPathReplace, Keep: []string{"GH_TOKEN"}})

	p, err := c.plan(t.Context(), corral.Command{Shell: "true"})
	if err != nil || !slices.Contains(p.Env.Vars, "OTHER_TOKEN=hush") || slices.Contains(p.Env.Vars, "GH_TOKEN=hush") {
		t.Errorf("by the configuration: %q, %v", p.Env.Vars, err)
	}
	if _, err := c.plan(t.Context(), corral.Command{Shell: "true", Env: map[string]string{"PATH": "/opt"}}); err == nil {
		t.Error("a PATH that the configuration refuses is taken")
	}
	p, err = c.plan(theirs, corral.Command{Shell: "true", Env: map[string]string{"PATH": "/opt"}})
	if path, _ := p.Env.Lookup("PATH"); err != nil || path != "/opt" || !slices.Contains(p.Env.Vars, "GH_TOKEN=hush") || slices.Contains(p.Env.Vars, "OTHER_TOKEN=hush") {
		t.Errorf("by rules of its own: %q, %v", p.Env.Vars, err)
	}
}
