//go:build e2e

package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/secrets"
)

// newBox is an ephemeral sandbox of a configuration.
func newBox(t *testing.T, cfg sandbox.Config) *sandbox.Executor {
	t.Helper()
	if cfg.Engine == nil {
		cfg.Engine = enginetest.New(t)
	}
	cfg.StateDir, cfg.Image, cfg.WardenPath, cfg.Ephemeral = filepath.Join(testdir.New(t), "state"), images.Busybox, wardenbintest.Build(t), true
	e, err := sandbox.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// output runs a command that is to succeed.
func output(t *testing.T, x corral.Executor, command string) string {
	t.Helper()
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: command}, runner.Options{})
	if err != nil {
		t.Fatal(err, corral.Hint(err))
	}
	if !r.Exit.Success() {
		t.Fatalf("%s: %v\n%s", command, r.Exit, r.Output)
	}
	return r.Output.String()
}

func TestBinds(t *testing.T) {
	dir := testdir.New(t)
	for _, d := range []string{"ro", "rw", "real"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"ro/file": "of ro\n", "one": "of one\n", "real/file": "of real\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	x := newBox(t, sandbox.Config{Mounts: sandbox.Mounts{Binds: []string{dir + "/ro:/data/ro:ro", dir + "/rw:/rw", dir + "/one:/one.txt:ro", dir + "/link:/linked:rw"}}})
	got := output(t, x, `cat /data/ro/file /one.txt /linked/file; echo new >/rw/made; touch /data/ro/x 2>&1 | grep -o Read-only; echo x 2>/dev/null >/one.txt || echo refused`)
	if want := "of ro\nof one\nof real\nRead-only\nrefused\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "rw/made")); err != nil || string(b) != "new\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// A swapper is an engine. During its calls a directory is swapped.
type swapper struct {
	engine.Engine
	created, starting, started func()
}

func (s swapper) Create(ctx context.Context, spec engine.Spec) (string, error) {
	id, err := s.Engine.Create(ctx, spec)
	s.created()
	return id, err
}

func (s swapper) Start(ctx context.Context, id string) error {
	s.starting()
	defer s.started()
	return s.Engine.Start(ctx, id)
}

// Whatever is swapped between the check and the mount: nothing else than what
// was checked is in a sandbox in which a command runs.
func TestBindsAreNotSwapped(t *testing.T) {
	nothing := func() {}
	for _, tt := range []struct {
		name string
		set  func(s *swapper, swap, back func())
	}{
		{"after the check", func(s *swapper, swap, _ func()) { s.created = swap }},
		{"while it starts", func(s *swapper, swap, _ func()) { s.starting = swap }},
		{"while it starts, and back again", func(s *swapper, swap, back func()) { s.starting, s.started = swap, back }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := testdir.New(t)
			src := filepath.Join(dir, "src")
			if err := os.Mkdir(src, 0o755); err != nil {
				t.Fatal(err)
			}
			do := func(err error) {
				if err != nil {
					t.Error(err)
				}
			}
			swap := func() { do(os.Rename(src, src+"-aside")); do(os.Symlink("/etc", src)) }
			back := func() { do(os.Remove(src)); do(os.Rename(src+"-aside", src)) }
			engine := enginetest.New(t)
			s := swapper{Engine: engine, created: nothing, starting: nothing, started: nothing}
			tt.set(&s, swap, back)
			// Where the engine mounts by the path, which can be swapped.
			x := newBox(t, sandbox.Config{Engine: s, Mounts: sandbox.Mounts{Binds: []string{src + ":/data:ro"}}, Driver: sandbox.DriverFDs, Isolation: sandbox.Isolation{UIDRange: sandbox.SharedUIDs}})
			r, err := runner.Run(t.Context(), x, corral.Command{Shell: "cat /data/passwd"}, runner.Options{})
			if !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), src) {
				t.Errorf("%v, output %q", err, r.Output)
			}
			if tt.name != "while it starts, and back again" {
				back()
			}
			// Where what was held is mounted.
			x = newBox(t, sandbox.Config{Engine: s, Mounts: sandbox.Mounts{Binds: []string{src + ":/data:ro"}}, Driver: sandbox.DriverFDs})
			r, err = runner.Run(t.Context(), x, corral.Command{Shell: "cat /data/passwd"}, runner.Options{})
			if err == nil && (r.Exit.Success() || !strings.Contains(r.Stderr.String(), "No such file")) || err != nil && !errors.Is(err, corral.ErrDenied) {
				t.Errorf("%v, output %q", err, r.Output)
			}
		})
	}
}

// What a sandbox is not given is refused before anything is made.
func TestRefused(t *testing.T) {
	engine := enginetest.New(t)
	for _, cfg := range []sandbox.Config{
		{Mounts: sandbox.Mounts{Binds: []string{"/var/run/docker.sock:/var/run/docker.sock"}}},
		{Mounts: sandbox.Mounts{Binds: []string{"/etc:/data:ro"}}},
		{Mounts: sandbox.Mounts{Binds: []string{"/:/host"}}},
		{Workspace: sandbox.Workspace{Dir: "/", Access: sandbox.AccessReadWrite}},
		{Isolation: sandbox.Isolation{Network: "host"}},
		{Isolation: sandbox.Isolation{Network: "container:other"}},
		{Isolation: sandbox.Isolation{Seccomp: "unconfined"}},
		{Isolation: sandbox.Isolation{AppArmor: "unconfined"}},
		{Isolation: sandbox.Isolation{User: "0:0"}},
	} {
		cfg.Engine, cfg.StateDir = engine, filepath.Join(testdir.New(t), "state")
		if e, err := sandbox.New(cfg); !errors.Is(err, corral.ErrDenied) && !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%+v: %v", cfg, err)
			if err == nil {
				e.Close()
			}
		}
		if got := cfg.Refusals(); len(got) != 1 {
			t.Errorf("%+v: %+v", cfg, got)
		}
	}
	all := sandbox.Config{Engine: engine, StateDir: "/srv/state", Mounts: sandbox.Mounts{Binds: []string{"/etc:/a", "/proc:/b"}}, Isolation: sandbox.Isolation{Network: "host", Seccomp: "unconfined", User: "0:0"}}
	if got := all.Refusals(); len(got) != 5 {
		t.Errorf("%+v", got)
	}
}

// A network that is another under its ID is refused by the engine, and one that
// does not exist is not left out.
func TestNetworks(t *testing.T) {
	for network, want := range map[string]error{"corral-no-such-network": corral.ErrInvalid} {
		x := newBox(t, sandbox.Config{Isolation: sandbox.Isolation{Network: network}})
		if _, err := runner.Run(t.Context(), x, corral.Command{Shell: "true"}, runner.Options{}); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", network, err, want)
		}
	}
	x := newBox(t, sandbox.Config{})
	if got := output(t, x, "ls /sys/class/net"); got != "lo\n" {
		t.Errorf("without a network there are %q", got)
	}
}

// Limits are those that are asked for, in commands.
func TestLimits(t *testing.T) {
	x := newBox(t, sandbox.Config{Resources: sandbox.Resources{OpenFiles: 300, FileSize: 1 << 20, Tmp: 8 << 20, Memory: 256 << 20, Pids: 40}})
	got := output(t, x, `ulimit -n; ulimit -Hn; ulimit -c; head -c 3000000 /dev/zero >/tmp/big 2>/dev/null; wc -c </tmp/big
		i=0; while mkdir /tmp/d$i 2>/dev/null; do i=$((i+1)); done; [ $i -lt 2100 ] && echo few; grep -c Seccomp:.2 /proc/self/status; grep NoNewPrivs /proc/self/status; grep CapBnd /proc/self/status; cat /proc/self/oom_score_adj /proc/1/oom_score_adj`)
	if want := "300\n300\n0\n1048576\nfew\n1\nNoNewPrivs:\t1\nCapBnd:\t0000000000000000\n1000\n0\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// If the kernel kills everything in a sandbox because memory is used up, the error says so.
func TestDeathForWantOfMemory(t *testing.T) {
	x := newBox(t, sandbox.Config{Runtime: "runsc", Resources: sandbox.Resources{Memory: 128 << 20}})
	output(t, x, "true")
	_, err := runner.Run(t.Context(), x, corral.Command{Shell: "head -c 1000m /dev/zero | tail"}, runner.Options{})
	if !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), "no memory left") {
		t.Errorf("%v", err)
	}
	output(t, x, "true") // the next one has a new sandbox
}

// Many processes at once are no reason for gVisor to end, although each is more than
// one on this machine.
func TestManyProcessesInGVisor(t *testing.T) {
	x := newBox(t, sandbox.Config{Runtime: "runsc"})
	if got := output(t, x, `for i in $(seq 40); do (for k in 1 2 3 4 5; do sleep 0.2; done; echo $i) & done; wait`); strings.Count(got, "\n") != 40 {
		t.Errorf("of 40 shells these ended well: %q", got)
	}
}

// A terminal of gVisor's takes all that a process writes, which has ended long before
// the last of it was taken.
func TestTerminalInGVisor(t *testing.T) {
	const size = 6_000_000
	x := newBox(t, sandbox.Config{Runtime: "runsc", Resources: sandbox.Resources{OutputRate: 1 << 20}})
	cmd := corral.Command{Shell: `head -c 6000000 /dev/zero | tr '\0' x`, TTY: &corral.Size{}}
	r, err := runner.Run(t.Context(), x, cmd, runner.Options{})
	if err != nil || !r.Exit.Success() {
		t.Fatalf("%v, %v", r.Exit, err)
	}
	if r.Next != size {
		t.Errorf("%d bytes came out of %d", r.Next, size)
	}
}

func TestStats(t *testing.T) { testStats(t, enginetest.New(t)) }

// testStats is what an engine says of a container's use, after its limits were
// met.
func testStats(t *testing.T, eng interface {
	engine.Engine
	engine.StatsEngine
}) {
	t.Helper()
	x := newBox(t, sandbox.Config{Engine: eng, Resources: sandbox.Resources{Memory: 64 << 20, Pids: 50, CPUs: 0.5}})
	r, err := runner.Run(t.Context(), x, corral.Command{Shell: "head -c 200m /dev/zero | tail"}, runner.Options{})
	// Which of them the kernel kills is up to it, and one may not be enough: who is
	// killed needs a processor to let go of its memory.
	if err != nil || r.Exit.Reason != corral.ReasonOOM || r.Exit.Code != 137 && r.Exit.Signal != corral.SIGKILL {
		t.Errorf("%v, %v", r.Exit, err)
	}
	st, err := x.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := eng.Stats(t.Context(), st.Container.ID)
	if err != nil {
		t.Fatal(err)
	}
	if s.Memory <= 0 || s.Memory > 64<<20 || s.MemoryLimit != 64<<20 || s.CPU <= 0 || s.CPULimit != 0.5 || s.Pids < 1 || s.Pids > 50 || s.PidsLimit != 50 || s.OOMKills < 1 || s.At.IsZero() {
		t.Errorf("%+v", s)
	}
	if _, err := eng.Stats(t.Context(), "no-such-container"); !errors.Is(err, engine.ErrNoContainer) {
		t.Errorf("%v", err)
	}
}

// A secret is in its file, for the user of commands, and nowhere else.
func TestSecrets(t *testing.T) {
	for _, cfg := range []sandbox.Config{{Driver: sandbox.DriverFDs}, {Driver: sandbox.DriverFrames}, {Runtime: "runsc"}} {
		t.Run(string(cfg.Driver)+cfg.Runtime, func(t *testing.T) {
			const secret = "hunter2-corral-secret"
			var logged bytes.Buffer
			file := filepath.Join(testdir.New(t), "token")
			if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
				t.Fatal(err)
			}
			engine := enginetest.New(t)
			cfg.Engine, cfg.Mounts.Secrets = engine, map[string]secrets.Source{"TOKEN": {File: file}}
			cfg.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
			x := newBox(t, cfg)
			if got := output(t, x, "cat /run/secrets/TOKEN; ls -ln /run/secrets/TOKEN | cut -c1-10"); got != secret+"-r--------\n" {
				t.Errorf("%q", got)
			}
			output(t, x, `! echo x 2>/dev/null >/run/secrets/TOKEN && ! touch /run/secrets/new 2>/dev/null`)
			// What is looked for does not find itself.
			if got := output(t, x, `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -ac 'hunter2[-]corral' || true`); got != "0\n" {
				t.Errorf("an environment or a command line has it: %q", got)
			}
			st, err := x.Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			inspect, err := exec.Command("docker", "inspect", st.Container.ID).Output()
			if err != nil || len(inspect) == 0 {
				t.Fatal(err)
			}
			if bytes.Contains(inspect, []byte(secret)) || bytes.Contains(logged.Bytes(), []byte(secret)) {
				t.Error("the engine's description, or our log, has it")
			}
			if err := x.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
