package cli

import (
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/cli/app"
)

// percent is what GOGC is now.
func percent() int {
	was := debug.SetGCPercent(100)
	debug.SetGCPercent(was)
	return was
}

func TestCollectLate(t *testing.T) {
	usual := percent()
	defer debug.SetGCPercent(usual)
	for _, name := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}

	asUsual := app.CollectLate()
	if got := percent(); got != app.LateCollection {
		t.Errorf("it begins with %d", got)
	}
	asUsual()
	if got := percent(); got != usual {
		t.Errorf("a command that stays has %d, not %d", got, usual)
	}

	debug.SetGCPercent(usual)
	app.CollectLate()
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); percent() != usual; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a collection it is %d, not %d", percent(), usual)
		}
	}

	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	app.CollectLate()
	if got := percent(); got != 70 {
		t.Errorf("with GOGC=70 it is %d", got)
	}
}

// What runs for long has memory collected as always, from the beginning.
func TestCommandsThatStay(t *testing.T) {
	for _, tt := range []struct {
		args  []string
		stays bool
	}{
		{[]string{"gateway"}, true},
		{[]string{"node"}, true},
		{[]string{"mcp"}, true},
		{[]string{"exec", "true"}, false},
		{[]string{"gateway", "status"}, false},
	} {
		stayed := false
		a := &app.App{
			Stdin: os.Stdin, Stdout: io.Discard, Stderr: io.Discard, Environ: []string{"HOME=" + t.TempDir()},
			Backends: (&fakeMachine{}).backends(), CollectAsUsual: func() { stayed = true },
		}
		// None comes further than to its directory.
		commands{a}.run(t.Context(), append([]string{"--state-dir", os.DevNull + "/none"}, tt.args...))
		if stayed != tt.stays {
			t.Errorf("%q: it stays: %t", tt.args, stayed)
		}
	}
}
