package sandboxes

import (
	"testing"
	"time"

	"github.com/corral-exec/corral/api"
)

func TestProcessors(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	first := api.SandboxStats{Running: true, Container: "c", At: at, CPU: int64(time.Second)}
	then := func(change func(*api.SandboxStats)) api.SandboxStats {
		s := first
		s.At, s.CPU = at.Add(time.Second), int64(3*time.Second)
		change(&s)
		return s
	}
	if got := processors(first, then(func(*api.SandboxStats) {})); got == nil || *got != 2 {
		t.Errorf("%v", got)
	}
	for name, change := range map[string]func(*api.SandboxStats){
		"another container": func(s *api.SandboxStats) { s.Container = "d" },
		"ended":             func(s *api.SandboxStats) { s.Running = false },
		"at once":           func(s *api.SandboxStats) { s.At = at },
		"begun anew":        func(s *api.SandboxStats) { s.CPU = 0 },
	} {
		if got := processors(first, then(change)); got != nil {
			t.Errorf("%s: %v", name, *got)
		}
	}
	if got := processors(api.SandboxStats{}, first); got != nil {
		t.Errorf("after nothing: %v", *got)
	}
}
