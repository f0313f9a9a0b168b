package pathenv

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
)

// A Planner plans what Sandbox does, whatever it has planned before.
func TestPlanner(t *testing.T) {
	o := SandboxOptions{
		Config: map[string]string{"A": "1"}, PathPrepend: []string{"/p"}, Home: "/workspace",
		Image: []string{"PATH=/opt/bin:/bin", "B=2"}, Keep: []string{"C_TOKEN"}, Profile: ProfileQwen,
	}
	p := NewPlanner(o)
	commands := []corral.Command{
		{Shell: "ls"},
		{Shell: ": ; echo :"},
		{Args: []string{"ls", "-l"}},
		{Shell: "ls", Env: map[string]string{"A": "3", "PATH": "/c"}},
		{Args: []string{"ls"}, PathPrepend: []string{"/first"}},
		{Shell: "ls", TTY: &corral.Size{}},
		{Args: []string{"date"}},
		{Shell: "date"},
	}
	var plans []Plan
	for range 2 {
		for _, cmd := range commands {
			got, err := p.Plan(cmd)
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, got)
		}
	}
	for i, got := range plans { // now, as no plan may change another
		cmd := commands[i%len(commands)]
		want := o
		want.Shell, want.Args, want.Call, want.TTY = cmd.Shell, cmd.Args, cmd.Env, cmd.TTY != nil
		want.PathPrepend = append(cmd.PathPrepend, o.PathPrepend...)
		if diff := cmp.Diff(must(Sandbox(want)), got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", cmd, diff)
		}
	}
	if _, err := NewPlanner(SandboxOptions{PathPrepend: []string{"/a:/b"}}).Plan(corral.Command{Shell: "ls"}); err == nil {
		t.Error("a directory that cannot be on PATH was planned with")
	}
}
