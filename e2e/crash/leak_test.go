//go:build e2e

package crash_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/exectest"
	"github.com/corral-exec/corral/internal/test/moments"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/traces"
)

// The tests of the executors leave nothing behind: not when they pass, and not
// when they are killed in the middle and one of them is run once more, or with containers twice.
func TestTestsLeaveNothing(t *testing.T) {
	for _, tc := range []struct {
		pkg   string
		busy  string         // what is killed in the middle
		brief string         // what is run after that
		must  map[string]int // what must be there when it is killed, at least
	}{
		{"hostexec", "TestConformanceWarden$/^(timeout|signal|reopen|tty|drain)$", "TestConformanceInProcess$/^exit$/^code$",
			map[string]int{"process": 4, "file": 1}},
		{"hostexec", "TestConformanceInProcess$/^(timeout|signal|tty|drain)$", "TestConformanceWarden$/^exit$/^code$",
			map[string]int{"process": 3, "file": 1}},
		{"e2e/sandbox/docker", "TestConformance(FDs|Frames)$/^(timeout|signal|reopen|tty)$", "TestConformanceFDs$/^exit$/^code$",
			map[string]int{"container": 1, "process": 5, "mount": 1, "file": 1}},
	} {
		t.Run(tc.pkg+" "+tc.busy, func(t *testing.T) {
			dir := testdir.New(t)
			binary := buildTest(t, dir, tc.pkg)
			tmp := filepath.Join(dir, "tmp")
			if err := os.Mkdir(tmp, 0o700); err != nil {
				t.Fatal(err)
			}
			tr := traces.New(t, tmp)
			cmd := runTest(t, binary, tc.pkg, tc.busy, tmp)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			killAmid(t, cmd, tr, tc.must)
			if tc.must["container"] > 0 {
				makeLate(t, tmp)
			}
			// Two, since the engine may still be making a container when the first removes
			// what is there.
			for i := range 2 {
				if out, err := runTest(t, binary, tc.pkg, tc.brief, tmp).CombinedOutput(); err != nil {
					t.Errorf("the next test: %v\n%s", err, out)
				}
				if i > 0 || tc.must["container"] == 0 {
					tr.Gone(t)
				}
			}
		})
	}
}

// makeLate makes a container of a killed test whose directory is gone already.
func makeLate(t *testing.T, tmp string) {
	t.Helper()
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	labels := map[string]string{"corral": "sandbox", "corral.state": filepath.Join(tmp, "corral-test-1-0", "1", "state")}
	if _, err := c.ContainerCreate(t.Context(), &container.Config{Image: images.Busybox, Labels: labels}, nil, nil, nil, ""); err != nil {
		t.Fatal(err)
	}
}

// buildTest builds a package's tests, as this one was.
func buildTest(t *testing.T, dir, pkg string) string {
	t.Helper()
	args := []string{"test", "-c", "-tags", "e2e", "-o", filepath.Join(dir, filepath.Base(pkg)+".test")}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" && s.Value == "true" {
				args = append(args, "-race")
			}
		}
	}
	if out, err := exec.Command("go", append(args, "../../"+pkg)...).CombinedOutput(); err != nil {
		t.Fatalf("cannot build the tests of %s: %v\n%s", pkg, err, out)
	}
	return filepath.Join(dir, filepath.Base(pkg)+".test")
}

func runTest(t *testing.T, binary, pkg, run, tmp string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", run, "-test.timeout", "2m")
	cmd.Dir = "../../" + pkg
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, exectest.SummaryFile+"=")
	return cmd
}

// killAmid kills a test when enough is going on.
func killAmid(t *testing.T, cmd *exec.Cmd, tr *traces.Traces, must map[string]int) {
	t.Helper()
	rng := moments.Seeded(t, "CORRAL_CRASH_SEED")
	enough := func(count map[string]int) bool {
		for kind, n := range must {
			if count[kind] < n {
				return false
			}
		}
		return true
	}
	var count map[string]int
	for end := time.Now().Add(time.Minute); !enough(count); count = tr.Look(t) {
		if time.Now().After(end) {
			t.Errorf("there was too little to leave behind: %s", traces.Summary(count))
			break
		}
		time.Sleep(moments.Between(rng, 0, 100*time.Millisecond))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("the test ended by itself: %v", err)
	}
	_ = cmd.Wait() // it was killed
	if left := len(tr.Left(t)); left == 0 {
		t.Error("nothing was left behind: this tests nothing")
	}
	t.Logf("killed amid %s", traces.Summary(count))
}

// A test that fails cleans up like any other.
func TestFailingTestLeavesNothing(t *testing.T) {
	pl := newPlace(t, "fds") // so that the image is there
	tmp := testdir.New(t)
	tr := traces.New(t, tmp)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = child("failing", "TMPDIR="+tmp, wardenVar+"="+pl.Warden)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	most := map[string]int{}
	for err = nil; err == nil; {
		for kind, n := range tr.Look(t) {
			most[kind] = max(most[kind], n)
		}
		select {
		case err = <-ended:
		case <-time.After(5 * time.Millisecond):
		}
	}
	if cmd.ProcessState.ExitCode() != 1 || !bytes.Contains(out.Bytes(), []byte(failure)) {
		t.Errorf("%v:\n%s", err, out.String())
	}
	if most["container"] < 3 || most["process"] < 10 {
		t.Errorf("there was too little to leave behind: %s", traces.Summary(most))
	}
	t.Logf("failed amid %s", traces.Summary(most))
	tr.Gone(t)
}

const (
	failure   = "this fails, with commands running everywhere"
	wardenVar = "CORRAL_CRASH_WARDEN"
)

// failAtWork is a test that closes and ends nothing of what it began.
func failAtWork(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, kind := range []string{"host", "fds", "frames", "gvisor"} {
		dir := testdir.New(t)
		pl := place{Kind: kind, State: filepath.Join(dir, "state"), Work: filepath.Join(dir, "work"), Warden: os.Getenv(wardenVar)}
		if err := os.Mkdir(pl.Work, 0o755); err != nil {
			t.Fatal(err)
		}
		x, _, err := pl.open(os.Stderr)
		if err != nil {
			t.Fatal(err)
		}
		p := start(ctx, t, x, corral.Command{Shell: "echo here; (setsid sleep 50 &); exec sleep 50", TTY: &corral.Size{}})
		await(ctx, t, p, "here")
	}
	time.Sleep(time.Second) // for whoever looks on
	t.Fatal(failure)
}
