package cli

import (
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
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

	asUsual := collectLate()
	if got := percent(); got != lateCollection {
		t.Errorf("it begins with %d", got)
	}
	asUsual()
	if got := percent(); got != usual {
		t.Errorf("a command that stays has %d, not %d", got, usual)
	}

	debug.SetGCPercent(usual)
	collectLate()
	runtime.GC()
	for end := time.Now().Add(10 * time.Second); percent() != usual; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after a collection it is %d, not %d", percent(), usual)
		}
	}

	t.Setenv("GOGC", "70")
	debug.SetGCPercent(70)
	collectLate()
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
		a := &app{
			stdin: os.Stdin, stdout: io.Discard, stderr: io.Discard, environ: []string{"HOME=" + t.TempDir()},
			backends: (&fakeMachine{}).backends(), collectAsUsual: func() { stayed = true },
		}
		// None comes further than to its directory.
		a.run(t.Context(), append([]string{"--state-dir", os.DevNull + "/none"}, tt.args...))
		if stayed != tt.stays {
			t.Errorf("%q: it stays: %t", tt.args, stayed)
		}
	}
}
